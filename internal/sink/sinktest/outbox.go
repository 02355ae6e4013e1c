package sinktest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

// outboxTests: rejected lines that were sent elsewhere are removed, and no others.
var outboxTests = []test{
	{"OfTheLanesOfAJob", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a", "b", "c"}}.Begin(t, db)
		f := outbox(r, "a", "b")
		f("", 0)
		r.In("a").Flush(`{"id":1}`, `bad a`, "bad \xff")
		r.In("b").Flush(`bad b`)
		r.In("c").Flush(`bad c`)
		BeginJob(t, db, "another").Flush(`{"id":1}`, `bad other`)
		ids := f("bad a,bad \xff,bad b", 0)
		f("bad b", ids[1])
		f("3 wait", ids[2])
		f("bad \xff", 0, ids[0], ids[2])
		f("bad \xff", 0, ids[0], ids[2]) // again
		f("1 wait", ids[2])
		f("", 0, ids[1])
		if n := len(rejects(t, inspect(t, db), "")); n != 2 {
			t.Errorf("%d rejects are left, want the ones of another lane and another job", n)
		}
		f = outbox(r)
		f("", 0)
	}},
	{"Chunks", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a"}}.Begin(t, db)
		r.Flush(slices.Repeat([]string{`bad`}, sink.SentAtOnce+1)...)
		next, _, err := part[sink.DeadLetters](r).Outbox(t.Context(), &sink.Outbox{Job: r.Job, Lanes: []string{"a"}})
		if err != nil || len(next) != sink.SentAtOnce {
			t.Fatalf("%d come next, %v", len(next), err)
		}
		o := &sink.Outbox{Job: r.Job, Lanes: []string{"a"}, After: next[len(next)-1].ID}
		for i := range next {
			o.Sent = append(o.Sent, next[i].ID)
		}
		if next, _, err = part[sink.DeadLetters](r).Outbox(t.Context(), o); err != nil || len(next) != 1 {
			t.Errorf("%d are left, %v", len(next), err)
		}
	}},
}

// outbox returns a function that asks for lines of lanes, and checks what comes next.
func outbox(r *Run, lanes ...string) func(want string, after int64, sent ...int64) (ids []int64) {
	return func(want string, after int64, sent ...int64) (ids []int64) {
		r.t.Helper()
		next, waiting, err := part[sink.DeadLetters](r).Outbox(r.t.Context(), &sink.Outbox{Job: r.Job, Lanes: lanes, After: after, Sent: sent})
		var texts []string
		for _, k := range next {
			ids, texts = append(ids, k.ID), append(texts, string(k.Text))
			if k.Job != r.Job || !slices.Contains(lanes, k.Source) || k.Line == 0 || !strings.Contains(k.Reason, ": ") {
				r.t.Errorf("it is %+v", k)
			}
		}
		got := strings.Join(texts, ",")
		if waiting > 0 {
			got += fmt.Sprintf("%d wait", waiting)
		}
		if err != nil || got != want {
			r.t.Errorf("behind %d, without %v: %q, %v; want %q", after, sent, got, err, want)
		}
		return ids
	}
}
