package sinktest

import (
	"errors"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

// resendTests: rejected lines that are folded again are removed in the transaction that applies them.
var resendTests = []test{
	{"AppliedLinesAreRemoved", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a"}}.Begin(t, db)
		r.Flush(`{"id":1}`, `bad 1`, `bad 2`, `bad 3`)
		ids := keptIDs(t, db)
		s := Setup{Sources: lines{"a"}, Unnamed: true}.unclaimed(t, db)
		s.FlushAs(resent(ids[0], ids[1]), `{"id":2}`, `worse`)
		Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2")
		Expect(t, db, "SELECT source, raw FROM weir_rejects ORDER BY id", "a|bad 3", "a|worse")
		Expect(t, db, "SELECT seq FROM weir_checkpoints WHERE source = 'a'", "1")
		r.Flush(`{"id":3}`)
	}},
	{"TheSameFlushTwiceIsAppliedOnce", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a"}}.Begin(t, db)
		r.Flush(`{"id":1}`, `bad 1`)
		ids := keptIDs(t, db)
		s := Setup{Sources: lines{"a"}, Unnamed: true}.unclaimed(t, db)
		s.Fold(`{"id":2,"a":"x"}`)
		f := s.Seal()
		resent(ids...)(f)
		faulty := Faulty(s.Sink, func(Call) Fault { return Fault{At: After, Err: errFault} })
		if _, err := faulty.Flush(t.Context(), f); !errors.Is(err, errFault) {
			t.Fatalf("the flush ended with %v", err)
		}
		Counts(t, s.again(f), 1, 0, 0, 0)
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "0")
	}},
	{"LinesThatAreMissingEndTheFlush", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a"}}.Begin(t, db)
		r.Flush(`{"id":1}`, `bad 1`, `bad 2`)
		ids := keptIDs(t, db)
		first, second := Setup{Sources: lines{"a"}, Unnamed: true}.unclaimed(t, db), Setup{Sources: lines{"a"}, Unnamed: true}.unclaimed(t, db)
		first.FlushAs(resent(ids[0]), `{"id":2}`)
		second.Fold(`{"id":2}`, `{"id":3}`)
		f := second.Seal()
		resent(ids...)(f)
		var missing sink.ResentError
		if _, err := second.Send(f); !errors.As(err, &missing) || missing.Missing != 1 {
			t.Errorf("lines that another run has applied: %v", err)
		}
		Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2")
		Expect(t, db, "SELECT raw FROM weir_rejects", "bad 2")
	}},
	{"ManyLines", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a"}}.Begin(t, db)
		r.Flush(slices.Repeat([]string{`bad`}, 2*sink.KeptAtOnce+1)...)
		ids := keptIDs(t, db)
		Setup{Sources: lines{"a"}, Unnamed: true}.unclaimed(t, db).FlushAs(resent(ids[1:]...), `{"id":2}`)
		Expect(t, db, "SELECT count(*) FROM weir_rejects", "1")
	}},
	{"OnesThatTheDatabaseRejectsAgain", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
		r := Setup{Sources: lines{"a"}}.Begin(t, db)
		r.Flush(`{"id":1,"n":-1}`, `{"id":2,"n":-2}`)
		s := Setup{Sources: lines{"a"}, Unnamed: true}.unclaimed(t, db)
		s.FlushAs(resent(keptIDs(t, db)...), `{"id":1,"n":1}`, `{"id":2,"n":-2}`)
		Expect(t, db, "SELECT id, n FROM t", "1|1")
		Expect(t, db, "SELECT raw, line FROM weir_rejects", `{"id":2,"n":-2}|2`)
	}},
}

// resent makes a flush remove stored lines.
func resent(ids ...int64) func(*sink.Flush) { return func(f *sink.Flush) { f.Resent = ids } }

// keptIDs returns the IDs of all rejected lines, in order.
func keptIDs(t *testing.T, db Database) (ids []int64) {
	t.Helper()
	if err := inspect(t, db).Rejects(t.Context(), "", func(k sink.Kept) error {
		ids = append(ids, k.ID)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return ids
}
