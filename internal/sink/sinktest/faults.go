package sinktest

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// SeedVariable is the environment variable that limits the random tests to one seed, such as 7, or to a range of seeds,
// such as 1000-1999.
const SeedVariable = "TEST_SEED"

// Seeds runs f with n seeds, or with the seeds in [SeedVariable].
func Seeds(t *testing.T, n int, f func(t *testing.T, rnd *rand.Rand)) {
	first, last := uint64(1), uint64(n)
	if s := os.Getenv(SeedVariable); s != "" {
		from, to, isRange := strings.Cut(s, "-")
		if !isRange {
			to = from
		}
		var err, lastErr error
		first, err = strconv.ParseUint(from, 10, 64)
		last, lastErr = strconv.ParseUint(to, 10, 64)
		testcheck.NoError(t, errors.Join(err, lastErr))
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("%s=%d", SeedVariable, seed), func(t *testing.T) { f(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// faultTests: calls that fail.
var faultTests = []test{
	{"AFaultAtEachMoment", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":0,"a":"x"}`)
		for i, at := range []Moment{Before, Within, After} {
			before := r.cp().Seq
			f := r.failing(at, fmt.Sprintf(`{"id":%d,"a":"x"}`, i+1), "bad")
			Expect(t, db, "SELECT seq FROM weir_checkpoints", fmt.Sprint(before+int64([]int{0, 0, 1}[i])))
			calls := 0
			f.BeforeCommit = func([]fold.Reject) error { calls++; return nil }
			if r.again(f); calls != []int{1, 1, 0}[i] {
				t.Errorf("moment %d, again: BeforeCommit was called %d times", at, calls)
			}
			Expect(t, db, "SELECT count(*), (SELECT count(*) FROM weir_rejects), (SELECT seq FROM weir_checkpoints) FROM t", fmt.Sprintf("%d|%d|%d", i+2, i+1, before+1))
		}
	}},
	{"AClaimWhoseAnswerWasLost", func(t *testing.T, db Database) {
		need(t, db, Claimable)
		db.Open(t)
		c := FaultyClaims(claims(t, db, job), func(c Call) (f Fault) {
			if c.N == 1 {
				f = Fault{At: After, Err: &sink.Error{Class: sink.Unknown, Reason: "connection", Err: errFault}}
			}
			return f
		})
		if _, err := c.Take(t.Context(), from); !errors.Is(err, errFault) {
			t.Errorf("the claim ended with %v", err)
		}
		_, err := claims(t, db, job).Take(t.Context(), from)
		taken(t, err, from)
		_, err = c.Take(t.Context(), from)
		taken(t, err)
		if err := c.Drop(t.Context(), from); !errors.Is(err, errFault) {
			t.Errorf("dropping the claim ended with %v", err)
		}
		if err := c.Drop(t.Context(), from); err != nil {
			t.Error(err)
		}
		_, err = claims(t, db, job).Take(t.Context(), from)
		taken(t, err)
	}},
}

// feedFaultily writes a feed in random batches, with failing calls, and runs that end or are killed, whose lines the
// next run rereads from the checkpoint on. It returns how many calls failed and were repeated.
func (s Setup) feedFaultily(t *testing.T, db Database, rnd *rand.Rand, lines []string) (failed int) {
	t.Helper()
	begin := func() *Run {
		r := s.open(t, db)
		faults, onRetry := RandomFaults(rnd), func(*sink.Error) { failed++ }
		r.Sink = Retry(Faulty(r.Sink, faults), time.Minute, onRetry)
		r.Claims = RetryClaims(FaultyClaims(r.Claims, faults), time.Minute, onRetry)
		testcheck.NoError(t, errors.Join(r.take(), r.read()))
		return r
	}
	r := begin()
	start := r.cp().Line
	for rest := lines; len(rest) > 0; {
		n := min(1+rnd.IntN(1+rnd.IntN(60)), len(rest))
		killed := rnd.IntN(10) == 0
		if killed { // before its flush, within it, or before it learns of the commit
			r.failing(Moment(rnd.IntN(3)), rest[:n]...)
		} else {
			r.Flush(rest[:n]...)
			rest = rest[n:]
		}
		if killed || rnd.IntN(10) == 0 {
			r.End()
			r = begin()
			rest = lines[r.cp().Line-start:]
		}
	}
	r.End()
	return failed
}

// plainRows returns the rows that lines fold into, in the format of Expect: the id, by which they are sorted, the
// result of first for a row, and the columns.
func plainRows(t *testing.T, lines []string, r foldtest.Rules, first func(map[string]foldtest.Value) string, columns ...string) (rows []string) {
	t.Helper()
	r.Key, r.DeleteField, r.DeleteValue, r.MaxColumns = []string{"id"}, "op", "delete", 100
	table := foldtest.NewTable(r, foldtest.Limits{})
	for _, line := range lines {
		if err := table.Apply([]byte(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	byID := map[int]string{}
	for _, row := range table.Rows() {
		id, err := strconv.Atoi(row["id"].Text)
		testcheck.NoError(t, err)
		cells := []string{row["id"].Text}
		if first != nil {
			cells = append(cells, first(row))
		}
		for _, c := range columns {
			if v, ok := row[c]; ok {
				cells = append(cells, v.Text)
			} else {
				cells = append(cells, "NULL")
			}
		}
		byID[id] = strings.Join(cells, "|")
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		rows = append(rows, byID[id])
	}
	return rows
}
