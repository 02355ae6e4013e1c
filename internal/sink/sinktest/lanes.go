package sinktest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// laneTests: a flush advances several lanes, each fenced by its own sequence number.
var laneTests = []test{
	{"ManyLanesInOneFlush", func(t *testing.T, db Database) {
		const lanes = 1500
		sources := make([]string, lanes)
		for i := range sources {
			sources[i] = fmt.Sprintf("it's source %d", i)
		}
		r := Setup{Sources: sources}.Begin(t, db)
		r.Flush(`{"id":1}`)
		r.In(sources[lanes-1]).Flush(`{"id":2}`, `{"id":3}`)
		Expect(t, db, "SELECT count(*), min(seq), max(seq), sum(line) FROM weir_checkpoints", fmt.Sprintf("%d|2|2|3", lanes))
		newer := r.rival(db)
		newer.lanes = newer.lanes[lanes-2 : lanes-1]
		newer.Flush()
		if _, err := r.TryFlush(`{"id":4}`); !isFenced(err, sources[lanes-2]) {
			t.Errorf("the flush ended with %v", err)
		}
		Expect(t, db, "SELECT count(*) FROM t", "3")
	}},
	{"SameFlushOfSeveralLanesTwiceIsAppliedOnce", func(t *testing.T, db Database) {
		r := Setup{Sources: lines{"a", "b", "-"}}.Begin(t, db)
		r.lanes[2].Unnamed = true
		r.In("-").Fold(`bad -`)
		r.In("a").Fold(`{"id":1,"a":"x"}`, `bad a`)
		f := r.In("b").failing(After, `{"id":1,"a":"y"}`, `bad b`)
		db.Exec(t, "UPDATE t SET a = 'theirs'")
		f.BeforeCommit = func([]fold.Reject) error { t.Error("BeforeCommit is called for a flush that was applied"); return nil }
		Counts(t, r.again(f), 1, 0, 0, 0)
		Expect(t, db, "SELECT a FROM t", "theirs")
		Expect(t, db, "SELECT source, raw FROM weir_rejects ORDER BY raw", "-|bad -", "a|bad a", "b|bad b")
		r.In("-").Flush(`{"id":2,"a":"x"}`)
		Expect(t, db, "SELECT source, seq FROM weir_checkpoints WHERE source <> '"+sink.RunPrefix+r.id+"' ORDER BY source", "a|2", "b|2")
		Expect(t, db, "SELECT count(*) FROM weir_checkpoints", "3")
	}},
	{"RejectsAreKeptUnderTheirSources", func(t *testing.T, db Database) {
		theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER CHECK (n >= 0))")
		r := Setup{Sources: lines{"a", "b", "c"}}.Begin(t, db)
		r.In("b").Fold(`bad b`, `{"id":1,"n":-1}`)
		r.In("c").Fold(`{"id":2,"n":-2}`)
		r.In("a").Fold(`{"id":3,"n":3}`, `bad a`, `{"id":4,"n":-4}`)
		f := r.Seal()
		var seen []string
		f.BeforeCommit = func(rejects []fold.Reject) error {
			seen = nil // it may be called again
			for _, r := range rejects {
				seen = append(seen, fmt.Sprint(f.Lanes[r.Lane].Source, r.Line))
			}
			return nil
		}
		res, err := r.Send(f)
		testcheck.NoError(t, err)
		Expect(t, db, "SELECT source, line, raw FROM weir_rejects ORDER BY source, line",
			"a|2|bad a", `a|3|{"id":4,"n":-4}`, "b|1|bad b", `b|2|{"id":1,"n":-1}`, `c|1|{"id":2,"n":-2}`)
		if slices.Sort(seen); !slices.Equal(seen, []string{"a2", "a3", "b1", "b2", "c1"}) {
			t.Errorf("BeforeCommit is given %q", seen)
		}
		if len(res.Refused) != 3 {
			t.Errorf("refused: %v", res.Refused)
		}
	}},
}
