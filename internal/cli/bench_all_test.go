package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/report"
)

// A fakeResult is that of an experiment that measured nothing.
type fakeResult struct {
	Figure int `json:"figure"`
}

func (fakeResult) Page() *report.Page { return &report.Page{Title: "weir: fake", Measured: "a disk"} }

// TestBenchAll_ContinuesAfterFailures: an experiment that fails is on the page and an error, one that Postgres is
// missing for is no error, and wrong usage ends all.
func TestBenchAll_ContinuesAfterFailures(t *testing.T) {
	ran := ""
	fake := func(name string, err error) story {
		return story{name: name, text: "It was slow.", source: "A blog", url: "https://blog.example", run: func(*allBench, context.Context) (benchResult, error) {
			ran += name + " "
			return fakeResult{7}, err
		}}
	}
	said := ""
	a := &allBench{e: &env{}, log: logtest.To(func(line string) { said += line })}
	r, err := a.run(t.Context(), []story{fake("broken", errors.New("no disk")), fake("distant", errNoPostgres), fake("good", nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.(*allResult).failure(); ran != "broken distant good " || err == nil || err.Error() != "broken: no disk" {
		t.Errorf("ran %q: %v", ran, err)
	}
	if !strings.Contains(said, "distant is skipped: it needs Postgres") {
		t.Errorf("it said %q", said)
	}
	var text strings.Builder
	if err := r.Page().Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"It was not measured: no disk", "It was not measured: it needs Postgres", "WEIR: FAKE", "a disk"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"result":null,"error":"no disk"`) || !strings.Contains(string(b), `"result":{"figure":7}}]`) {
		t.Errorf("%v: %s", err, b)
	}
	ran = ""
	if _, err := a.run(t.Context(), []story{fake("wrong", usagef("no such feed")), fake("good", nil)}); err == nil || ran != "wrong " {
		t.Errorf("ran %q: %v", ran, err)
	}
}

// TestBenchAll_HasEveryExperiment that weir bench has, with a source.
func TestBenchAll_HasEveryExperiment(t *testing.T) {
	listed := map[string]bool{"all": true}
	for _, s := range stories {
		listed[s.name] = true
		if !strings.HasPrefix(s.url, "https://") || s.source == "" || strings.Count(s.text, ". ") < 1 || !strings.HasSuffix(s.text, ".") {
			t.Errorf("%s: %+v", s.name, s)
		}
	}
	for _, c := range (&env{}).benchCommand().Commands() {
		if !c.Hidden && !listed[c.Name()] {
			t.Errorf("weir bench all does not run %s", c.Name())
		}
	}
}
