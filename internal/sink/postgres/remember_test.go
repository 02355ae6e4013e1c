package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_RememberedRowsAreOneRoundTrip: a flush that changes rows which the connection wrote last does not look
// for them; one that may not change all of them does, and one after another run has written one.
func TestFlush_RememberedRowsAreOneRoundTrip(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	r := sinktest.Begin(t, db, versionedBy(fold.ColumnScope))
	all := []string{`{"id":1,"v":1,"a":"x","b":"x"}`, `{"id":2,"v":1,"a":"x"}`}
	r.Flush(all...)
	r.Flush(all...)
	other := sinktest.BeginJob(t, connect(t, db.url), "other", versionedBy(fold.ColumnScope))
	flush := func(answers int, lines ...string) {
		t.Helper()
		all = append(all, lines...)
		p.Cut(nil)
		r.Flush(lines...)
		if got := p.Count(); got.Answers != answers {
			t.Errorf("answered %d times, want %d: %q", got.Answers, answers, lines)
		}
		sinktest.Expect(t, db, "SELECT id, CAST(v AS REAL), a, b, NULL FROM t ORDER BY id", sinktest.PlainFold(t, all, false)...)
	}
	flush(2, `{"id":1,"v":5,"a":"5","b":"5"}`, `{"id":2,"v":5,"a":"5"}`)
	flush(1, `{"id":1,"v":6,"b":"6"}`, `{"id":2,"v":7,"a":"7"}`)
	flush(2, `{"id":1,"v":8,"b":"8"}`, `{"id":2,"v":6,"b":"6"}`) // an old message may change nothing
	flush(1, `{"id":1,"v":9,"b":"9"}`)
	flush(2, `{"id":1,"v":10,"b":"10"}`, `{"id":3,"v":1,"b":"1"}`)
	flush(2, `{"id":1,"v":11,"b":"11"}`, `{"id":3,"v":2,"op":"delete"}`)
	flush(2, `{"id":1,"v":12,"b":"12"}`, `{"id":3,"v":3,"b":"3"}`)
	theirs := `{"id":1,"v":20,"a":"20"}`
	other.Flush(theirs)
	all = append(all, theirs)
	flush(4, `{"id":1,"v":15,"a":"15","b":"15"}`) // it begins again, after a ROLLBACK
	flush(2, `{"id":1,"v":16,"b":"16"}`)          // there are other writers
}

// TestFlush_RememberedRowsAreWrittenOtherwise: what is remembered is not taken for wrong where the connection itself has
// written the rows in a way that is not remembered, or a flush had to be sent again for another reason.
func TestFlush_RememberedRowsAreWrittenOtherwise(t *testing.T) {
	db, p := throughProxy(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v integer, a integer CHECK (a >= 0), seen timestamptz)")
	r := sinktest.Begin(t, db, versionedBy(fold.ColumnScope), func(o *fold.Options) { o.Columns = fold.AddColumns })
	flush := func(answers int, lines ...string) {
		t.Helper()
		p.Cut(nil)
		r.Flush(lines...)
		if got := p.Count(); answers > 0 && got.Answers != answers {
			t.Errorf("answered %d times, want %d: %q", got.Answers, answers, lines)
		}
	}
	r.Flush(`{"id":1,"v":1,"a":1}`)
	r.Flush(`{"id":1,"v":2,"a":2}`)
	flush(1, `{"id":1,"v":3,"a":3}`)

	flush(2, `{"id":1,"v":4,"b":"adds a column"}`)
	flush(2, `{"id":1,"v":5,"a":5}`)
	flush(1, `{"id":1,"v":6,"a":6}`)

	flush(0, `{"id":1,"v":7,"a":7}`, `{"id":2,"v":7,"a":-1}`) // is written piecewise
	flush(2, `{"id":1,"v":8,"a":8}`)
	flush(1, `{"id":1,"v":9,"a":9}`)

	flush(2, `{"id":3,"v":1,"a":1}`)
	flush(2, `{"id":4,"v":1,"a":1}`)
	flush(3, `{"id":1,"v":10,"a":10}`) // is taken to be new, as the two rows before
	flush(1, `{"id":1,"v":11,"a":11}`)

	db.Exec(t, "UPDATE t SET seen = '2000-01-01' WHERE id = 1")
	if got := r.Expire(&sink.Expiry{Table: "t", Key: []string{"id"}, Of: []string{"seen"}, Before: time.Now().Add(-time.Hour)}); got.Removed != 3 {
		t.Fatalf("%+v", got)
	}
	flush(2, `{"id":1,"v":12,"a":12}`)
	sinktest.Expect(t, db, "SELECT id, v, a, b FROM t ORDER BY id", "1|12|12|NULL")
}

// TestFlush_RememberedRowIsGone: a row that somebody has removed starts from nothing, and one without versions is older
// than all messages.
func TestFlush_RememberedRowIsGone(t *testing.T) {
	for name, remove := range map[string]string{"row": "DELETE FROM t", "state": "DELETE FROM weir_versions", "both": "TRUNCATE t, weir_versions"} {
		for _, version := range []int{6, 4} { // newer than what was removed, and older
			t.Run(fmt.Sprint(name, version), func(t *testing.T) {
				db := connect(t, testpg.New(t))
				r := sinktest.Begin(t, db, versionedBy(fold.ColumnScope))
				r.Flush(`{"id":1,"v":1,"a":"x","b":"x"}`)
				r.Flush(`{"id":1,"v":5,"a":"5"}`)
				db.Exec(t, remove)
				r.Flush(fmt.Sprintf(`{"id":1,"v":%d,"a":"%[1]d"}`, version))
				r.Flush(`{"id":1,"v":0,"b":"late"}`)
				sinktest.Expect(t, db, "SELECT a, b FROM t", fmt.Sprint(version, "|late"))
			})
		}
	}
}

// TestFlush_RememberedRows has a run write rows that others have changed since it wrote them: another run, or
// somebody by hand, who removes rows, or states, or both. The table is the fold, where a row that was removed starts from nothing.
func TestFlush_RememberedRows(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	db := connect(t, testpg.New(t))
	first := sinktest.Begin(t, db, versionedBy(fold.ColumnScope))
	first.Flush(`{"id":0,"v":0,"a":"x","b":"x","c":"x"}`)
	var lines [5][]string // by row, since it was removed
	fill := func(id int) string { return fmt.Sprintf(`{"id":%d,"v":0,"a":"x","b":"x","c":"x"}`, id) }
	write := func(r *sinktest.Run, deletes bool) {
		t.Helper()
		var all []string
		for range 1 + rnd.IntN(4) {
			id := rnd.IntN(len(lines))
			line := fmt.Sprintf(`{"id":%d,"v":%d,"%c":"%[2]d"}`, id, 1+rnd.IntN(1000), "abc"[rnd.IntN(3)])
			if deletes && rnd.IntN(8) == 0 {
				line = fmt.Sprintf(`{"id":%d,"v":%d,"op":"delete"}`, id, 1+rnd.IntN(1000))
			}
			all, lines[id] = append(all, line), append(lines[id], line)
		}
		if _, err := r.TryFlush(all...); err != nil {
			t.Error(err)
		}
	}
	for round := range 25 {
		deletes := round%2 == 0 // a tombstone outlives a row that was removed by hand
		db.Exec(t, "TRUNCATE weir_versions")
		db.Exec(t, "TRUNCATE t")
		for id := range lines {
			lines[id] = []string{fill(id)}
			first.Flush(fill(id))
		}
		one := sinktest.BeginJob(t, db, fmt.Sprint("one ", round), versionedBy(fold.ColumnScope))
		other := sinktest.BeginJob(t, db, fmt.Sprint("other ", round), versionedBy(fold.ColumnScope))
		for range 1 + rnd.IntN(4) {
			write(one, deletes)
		}
		id := rnd.IntN(len(lines))
		what := rnd.IntN(4)
		switch {
		case deletes:
			write(other, true)
		case what == 0:
			db.Exec(t, fmt.Sprintf("DELETE FROM t WHERE id = %d", id))
			lines[id] = nil
		case what == 1:
			db.Exec(t, "TRUNCATE t")
			clear(lines[:])
		case what == 2:
			db.Exec(t, "TRUNCATE weir_versions")
			db.Exec(t, "TRUNCATE t")
			clear(lines[:])
		}
		for range 2 {
			write(one, deletes)
			write(other, deletes)
		}
		sinktest.Expect(t, db, "SELECT id, CAST(v AS REAL), a, b, c FROM t ORDER BY id", sinktest.PlainFold(t, slices.Concat(lines[:]...), false)...)
		if one.End(); t.Failed() {
			t.Fatalf("round %d, %d, %d: %q", round, what, id, lines)
		}
		other.End()
	}
}
