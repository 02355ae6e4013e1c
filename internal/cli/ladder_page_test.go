package cli_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestLadder_InABrowser looks at the report of a ladder.
func TestLadder_InABrowser(t *testing.T) {
	b := newBrowser(t)
	l := newLive(t, "t.db")
	feed, err := filepath.Abs("../../testdata/flights.jsonl.gz")
	l.check(err)
	run := l.start("run", "bench", "ladder", feed, "--to", l.to, "--for", "20ms", "--messages", "200", "--runs", "2", "--html", "ladder.html")
	if err := run.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, l.log("run"))
	}
	site := "file://" + l.dir
	grounds := map[string]bool{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{360, 800, 1400} {
			b.as(width, scheme)
			b.open(site + "/ladder.html")
			if over := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
				t.Errorf("it is %d pixels wider than %d", over, width)
			}
			// Each bar and each spread ends within its scale, and each of both scales has its marks.
			if bars := evaluate[int](b, `[...document.querySelectorAll(".bar")].filter(bar =>
				[...bar.children].every(part => part.getBoundingClientRect().right <= bar.getBoundingClientRect().right + 1)).length`); bars != 7 {
				t.Errorf("at %d pixels %d of 7 bars are within their scale", width, bars)
			}
			if smallest := evaluate[float64](b, `Math.min(...[...document.querySelectorAll("body *")].filter(e => e.innerText).map(e => parseFloat(getComputedStyle(e).fontSize)))`); smallest < 12 {
				t.Errorf("at %d pixels some text has %v", width, smallest)
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
