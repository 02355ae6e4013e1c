package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
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

func TestMetrics_SeveralTablesAndSources(t *testing.T) {
	p := status.New("flights", "positions")
	reg := newRegistry(p, true)
	a, file := p.Open("tcp://a:1", status.Dialed), p.Open("old.jsonl", status.File)
	p.Open("tcp-listen://b:1", status.Listening)
	p.SetConnections("tcp://a:1", 1)
	p.SetConnections("tcp-listen://b:1", 3)
	a.Read(10, 100, true, time.Time{})
	file.Read(5, 50, true, time.Time{})
	file.Close()
	a.Reject(&fold.Reject{Table: 0, Reason: feed.BadValue})
	a.Reject(&fold.Reject{Table: -1, Reason: feed.NotJSON})
	p.Flushed(status.Flush{Rows: 2, Tables: []status.TableCounts{{Rows: status.Rows{Inserted: 1}}, {Rows: status.Rows{Updated: 1}}}})
	have := scrape(t, reg)
	for _, line := range []string{
		`weir_read_lines_total{source="tcp://a:1",weir_job="j"} 10`,
		`weir_read_lines_total{source="tcp-listen://b:1",weir_job="j"} 0`,
		`weir_read_lines_total{weir_job="j"} 5`,
		`weir_pending_lines{source="tcp://a:1",weir_job="j"} 10`,
		`weir_connected{source="tcp://a:1",weir_job="j"} 1`,
		`weir_senders{source="tcp-listen://b:1",weir_job="j"} 3`,
		`weir_rows_total{result="inserted",table="flights",weir_job="j"} 1`,
		`weir_rows_total{result="updated",table="positions",weir_job="j"} 1`,
		`weir_rejected_lines_total{reason="value",table="flights",weir_job="j"} 1`,
		`weir_rejected_lines_total{reason="value",table="positions",weir_job="j"} 0`,
		`weir_rejected_lines_total{reason="not_json",weir_job="j"} 1`,
		`weir_batch_rows_sum{weir_job="j"} 2`,
	} {
		if !strings.Contains(have, "\n"+line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	if strings.Contains(have, `weir_connected{source="tcp-listen`) || strings.Contains(have, "old.jsonl") {
		t.Errorf("too much:\n%s", have)
	}
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
	for _, kind := range []status.NoteKind{status.Nulled, status.Ignored} {
		p.Note(kind, "t.a\xff", 1)
		p.Note(kind, "t.a\xfe", 2)
	}
	have := scrape(t, reg)
	for _, line := range []string{`weir_notes_total{kind="nulled_values",name="t.a�",weir_job="j"} 3`, `weir_notes_total{kind="ignored_fields",name="t.a�",weir_job="j"} 3`} {
		if !strings.Contains(have, "\n"+line+"\n") {
			t.Errorf("there is no %s in\n%s", line, have)
		}
	}
}
