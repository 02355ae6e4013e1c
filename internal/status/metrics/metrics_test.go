package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/status"
	"github.com/weirsync/weir/internal/status/metrics"
)

// scrape returns weir's own metrics of a run.
func scrape(t *testing.T, r *metrics.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func newRegistry(p *status.Progress, bySource bool) *metrics.Registry {
	p.Describe(status.Run{Job: "j", BySource: bySource})
	return metrics.New(p)
}

func TestMetrics_SourceThatEndsStays(t *testing.T) {
	p := status.New("t")
	reg := newRegistry(p, false)
	l := p.Open("tcp://a:1", status.Dialed)
	p.SetConnections("tcp://a:1", 1)
	l.Close()
	if have := scrape(t, reg); !strings.Contains(have, "\nweir_connected{weir_job=\"j\"} 0\n") {
		t.Errorf("a feed that has ended is not shown as unconnected:\n%s", have)
	}
}

// Prometheus takes only UTF-8, and each set of labels only once.
func TestMetrics_NamesThatAreNotUTF8(t *testing.T) {
	p := status.New("t\xff")
	reg := newRegistry(p, false)
	for _, kind := range []status.NoteKind{status.Mismatched, status.Ignored} {
		p.Note(kind, "t.a\xff", 1)
		p.Note(kind, "t.a\xfe", 2)
	}
	have := scrape(t, reg)
	for _, line := range []string{`weir_notes_total{kind="path_mismatches",name="t.a�",weir_job="j"} 3`, `weir_notes_total{kind="ignored_fields",name="t.a�",weir_job="j"} 3`} {
		if !strings.Contains(have, "\n"+line+"\n") {
			t.Errorf("there is no %s in\n%s", line, have)
		}
	}
}
