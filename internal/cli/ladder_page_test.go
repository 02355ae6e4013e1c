package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBench_InABrowser looks at the reports of experiments.
func TestBench_InABrowser(t *testing.T) {
	b := newBrowser(t)
	l := newLive(t, "t.db")
	feed, err := filepath.Abs("../../testdata/flights.jsonl.gz")
	l.check(err)
	bars := map[string]int{"queue.html": 24, "ladder.html": 7}
	for _, args := range [][]string{
		{"queue", "--lines", "100", "--for", "20ms", "--runs", "2", "--html", "queue.html"},
		{"ladder", feed, "--to", l.to, "--for", "20ms", "--messages", "200", "--runs", "2", "--html", "ladder.html"},
	} {
		if err := l.start("run", append([]string{"bench"}, args...)...).Wait(); err != nil {
			t.Fatalf("%v\n%s", err, l.log("run"))
		}
	}
	site := "file://" + l.dir
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 800, 1400} {
			b.as(width, scheme)
			for _, page := range []string{"queue.html", "ladder.html"} {
				b.open(site + "/" + page)
				if over := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
					t.Errorf("%s is %d pixels wider than %d", page, over, width)
				}
				// Each bar and each spread ends within its scale, and each of both scales has its marks.
				if within := evaluate[int](b, `[...document.querySelectorAll(".bar")].filter(bar =>
					[...bar.children].every(part => part.getBoundingClientRect().right <= bar.getBoundingClientRect().right + 1)).length`); within != bars[page] {
					t.Errorf("%s: at %d pixels %d of %d bars are within their scale", page, width, within, bars[page])
				}
				if smallest := evaluate[float64](b, `Math.min(...[...document.querySelectorAll("body *")].filter(e => e.innerText).map(e => parseFloat(getComputedStyle(e).fontSize)))`); smallest < 12 {
					t.Errorf("%s: at %d pixels some text has %v", page, width, smallest)
				}
			}
		}
		grounds[evaluate[string](b, "getComputedStyle(document.body).backgroundColor")] = true
	}
	if len(grounds) != 2 {
		t.Errorf("light and dark are %v", grounds)
	}
	for _, text := range []string{", written in seven ways", "messages/s, logarithmic", "batch period", "Medians of 2 runs", "synchronous full"} {
		if !strings.Contains(b.text(), text) {
			t.Errorf("%q is missing:\n%s", text, b.text())
		}
	}
	b.calm(site)
}
