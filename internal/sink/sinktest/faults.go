package sinktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
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
