package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// checkpointTests: what [sink.Claims] read.
var checkpointTests = []test{
	{"CheckpointIsWhatTheNextRunGets", func(t *testing.T, db Database) {
		r := Begin(t, db)
		if *r.cp() != (sink.Checkpoint{}) {
			t.Errorf("a new job has the checkpoint %+v", r.cp())
		}
		r.Fold(`{"id":1,"a":"x"}`, `bad`)
		f := r.Seal()
		want := &f.Lanes[0].Checkpoint
		want.Mark, want.Settings, want.Rejected = `{"m":1}`, "it's", 1
		r.again(f)
		known := r.known(0)
		r.End()
		c := claims(t, db, job)
		for _, read := range []func(context.Context, ...string) ([]sink.Checkpoint, error){c.Checkpoints, c.Take} {
			got, err := read(t.Context(), "other.jsonl", from, "")
			if err != nil || len(got) != 3 {
				t.Fatalf("the next run gets %+v, %v", got, err)
			}
			cp := got[1]
			if ago := time.Since(cp.Committed); ago < -time.Minute || ago > time.Minute {
				t.Errorf("the last commit was at %v", cp.Committed)
			}
			want.Run, want.TableID, want.Committed = r.id, cp.TableID, cp.Committed
			if cp != *want || known.ID == "" || idIn(&cp) != known.ID {
				t.Errorf("the next run gets %+v, want %+v", cp, *want)
			}
			if got[0] != (sink.Checkpoint{}) || got[2] != (sink.Checkpoint{}) {
				t.Errorf("other sources of the job begin at %+v", got)
			}
		}
		if got, err := c.Tables(t.Context()); err != nil || !slices.Equal(got, []string{table}) {
			t.Errorf("the job has written %q, %v", got, err)
		}
		c = claims(t, db, "other job")
		if got, err := c.Take(t.Context(), from); err != nil || !slices.Equal(got, []sink.Checkpoint{{}}) {
			t.Errorf("another job gets %+v, %v", got, err)
		}
		if got, err := c.Tables(t.Context()); err != nil || len(got) != 0 {
			t.Errorf("another job has written %q, %v", got, err)
		}
	}},
	{"EmptyBeforeTheFirstFlush", func(t *testing.T, db Database) {
		db.Open(t) // as every run does first
		c, i := claims(t, db, job), inspect(t, db)
		cps, err := c.Checkpoints(t.Context(), from)
		none, err2 := c.Take(t.Context())
		tables, err3 := c.Tables(t.Context())
		st, err4 := i.Status(t.Context())
		n, err5 := i.StoredRejects(t.Context(), job)
		testcheck.NoError(t, errors.Join(err, err2, err3, err4, err5))
		if !slices.Equal(cps, []sink.Checkpoint{{}}) || len(none) > 0 || len(tables) > 0 || len(st.Jobs) > 0 || len(st.Rejects) > 0 || n > 0 || len(rejects(t, i, "")) > 0 {
			t.Errorf("the checkpoints are %+v and %+v, the tables %q, the status %+v; %d rejects are kept", cps, none, tables, st, n)
		}
		// The same claims read what is committed later.
		Setup{}.unclaimed(t, db).Flush(`{"id":1}`)
		if got, err := c.Checkpoints(t.Context(), from); err != nil || len(got) != 1 || got[0].Seq != 1 || got[0].Line != 1 {
			t.Errorf("the checkpoint is %+v, %v", got, err)
		}
	}},
	{"LatestIsTheLastCommitOfTheJob", func(t *testing.T, db Database) {
		db.Open(t) // as every run does first
		latest := func(job, source string, line int64) {
			t.Helper()
			got, cp, err := claims(t, db, job).Latest(t.Context())
			if err != nil || got != source || cp.Line != line || (source == "") != (cp == sink.Checkpoint{}) {
				t.Errorf("the last commit of %s is %+v of %q, %v; want line %d of %q", job, cp, got, err, line, source)
			}
		}
		latest(job, "", 0)
		r := Begin(t, db)
		for n, source := range []string{"b.jsonl", "a.jsonl", "b.jsonl"} {
			r.FlushAs(func(f *sink.Flush) {
				f.Lanes[0].Source, f.Lanes[0].Checkpoint = source, sink.Checkpoint{Seq: int64(n/2 + 1), Line: int64(10 + n), Offset: 7, Mark: `{"m":1}`}
			}, fmt.Sprintf(`{"id":%d}`, n))
			latest(job, source, int64(10+n))
			time.Sleep(2 * time.Millisecond) // commits are distinguished by their times
		}
		latest("other job", "", 0)
	}},
	{"ClaimsEndWithTheirContext", func(t *testing.T, db Database) {
		db.Open(t)
		c := claims(t, db, job)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, taken := c.Take(ctx, "a", "b")
		_, read := c.Checkpoints(ctx, "a")
		_, tables := c.Tables(ctx)
		for name, err := range map[string]error{"Take": taken, "TakeJob": c.TakeJob(ctx), "Checkpoints": read, "Tables": tables} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s with a context that is cancelled: %v", name, err)
			}
		}
		if _, err := claims(t, db, job).Take(t.Context(), "a", "b"); err != nil {
			t.Errorf("a claim that was cancelled holds: %v", err)
		}
	}},
}

// claims opens claims, which are closed at the end of the test.
func claims(t *testing.T, db Database, job string) sink.Claims {
	t.Helper()
	c := db.Claims(t, job)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// taken checks that lanes were claimed, or, if given a lane, that another run holds it.
func taken(t *testing.T, err error, busy ...string) {
	t.Helper()
	var e sink.BusyError
	switch {
	case len(busy) == 0 && err != nil:
		t.Errorf("the claim ended with %v", err)
	case len(busy) > 0 && (!errors.As(err, &e) || e.Job != job || e.Lane != busy[0]):
		t.Errorf("the claim ended with %v; want that %q is held", err, busy[0])
	}
}

// The runs that claim lanes: three of the suite's job, and one of another.
const (
	first = iota
	second
	third
	otherJob
)

// A claim is an operation of a run: take or drop lanes, take the whole job, or close. busyLane is the lane that is then
// busy, or ? for the job or any of its lanes.
type claim struct {
	run      int
	does     string
	lanes    string
	busyLane string
}

func claimed(t *testing.T, db Database, all []claim) {
	t.Helper()
	db.Open(t)
	runs := []sink.Claims{claims(t, db, job), claims(t, db, job), claims(t, db, job), claims(t, db, "other job")}
	for i, c := range all {
		var err error
		switch run, lanes := runs[c.run], strings.Fields(c.lanes); c.does {
		case "take":
			_, err = run.Take(t.Context(), lanes...)
		case "job":
			err = run.TakeJob(t.Context())
		case "drop":
			err = run.Drop(t.Context(), lanes...)
		case "close":
			err = run.Close()
		}
		var busy sink.BusyError
		if c.busyLane == "" && err != nil || c.busyLane != "" && (!errors.As(err, &busy) || busy.Job != job || c.busyLane != "?" && busy.Lane != c.busyLane) {
			t.Errorf("claim %d, %+v, ended with %v", i, c, err)
		}
	}
}

// claimTests: only one run at a time holds a lane.
var claimTests = []test{
	{"OneRunHoldsALane", func(t *testing.T, db Database) {
		claimed(t, db, []claim{
			{first, "take", "a b", ""}, {second, "take", "c", ""},
			{first, "take", "a", ""},                               // its own
			{second, "take", "a", "a"},                             // held
			{second, "take", "d b", "b"}, {first, "take", "d", ""}, // one of them is held: none is taken
			{second, "take", "c e", ""}, {otherJob, "take", "a", ""},
			{first, "drop", "a d", ""}, {second, "take", "d", ""}, {second, "take", "a", ""}, {second, "take", "b", "b"}, {first, "take", "a", "a"},
			{first, "drop", "a never", ""}, {first, "take", "a", "a"}, // nothing of the other run's
			{first, "drop", "", ""}, {second, "take", "b", "b"},
			{first, "close", "", ""}, {second, "take", "b", ""},
			{first, "close", "", ""}, {third, "take", "b", "b"}, // the second close releases nothing of the other run's
		})
	}},
	{"TheWholeJobExcludesItsLanes", func(t *testing.T, db Database) {
		claimed(t, db, []claim{
			{first, "take", "a", ""}, {second, "job", "", "?"}, {second, "take", "b", ""}, {first, "job", "", "?"}, // the second run has a lane
			{first, "take", "b", "b"}, {second, "drop", "b", ""}, {first, "job", "", "?"}, // the second run continues
			{second, "close", "", ""}, {first, "job", "", ""}, {first, "job", "", ""}, // with its own lane
			{second, "take", "b", "?"}, {second, "job", "", "?"}, {first, "take", "a c", ""}, {otherJob, "job", "", ""},
			{first, "drop", "a c", ""}, {second, "take", "a", "?"}, // the job is held, whatever happens to lanes
			{first, "close", "", ""}, {second, "take", "a", ""}, {second, "close", "", ""},
			{second, "take", "", ""}, {third, "job", "", "?"}, // a run that resumes nothing
			{second, "close", "", ""}, {third, "job", "", ""},
		})
	}},
	{"ManyLanesAtOnce", func(t *testing.T, db Database) {
		const lanes = 3000
		names := make([]string, lanes)
		for i := range names {
			names[i] = fmt.Sprintf("lane %d", i)
		}
		r := Setup{Sources: names}.Begin(t, db)
		for i := range r.lanes {
			r.lanes[i].Checkpoint.Line = int64(i)
		}
		r.Flush()
		other := claims(t, db, job)
		if _, err := other.Take(t.Context(), "free", names[lanes-1]); !errors.As(err, new(sink.BusyError)) {
			t.Errorf("the claim ended with %v", err)
		}
		testcheck.NoError(t, r.Claims.Drop(t.Context(), names...))
		got, err := other.Take(t.Context(), names...)
		if err != nil || len(got) != lanes {
			t.Fatalf("%d lanes that were dropped: %v", len(got), err)
		}
		for i, cp := range got {
			if cp.Seq != 1 || cp.Line != int64(i) {
				t.Fatalf("lane %d stands at %+v", i, cp)
			}
		}
		again, err := r.Claims.Checkpoints(t.Context(), names...)
		if err != nil || !slices.Equal(again, got) {
			t.Errorf("without a claim the checkpoints are others (%v)", err)
		}
		if _, err := r.Claims.Take(t.Context(), names[7]); !errors.As(err, new(sink.BusyError)) {
			t.Errorf("the claim ended with %v", err)
		}
	}},
	{"ClaimsMayBeUsedByManyGoroutines", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1}`)
		done := make(chan error)
		const users = 8
		for n := range users {
			go func() {
				var err error
				for i := range 20 {
					lane := fmt.Sprintf("lane %d", (n*i)%users+n*users)
					_, taken := r.Claims.Take(t.Context(), lane)
					_, read := r.Claims.Checkpoints(t.Context(), from, lane)
					err = errors.Join(err, taken, read, r.Claims.Drop(t.Context(), lane))
				}
				done <- err
			}()
		}
		for range users {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}},
	{"AClaimDoesNotWaitForAFlush", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1}`)
		r.Fold(`{"id":2}`)
		f := r.Seal()
		f.BeforeCommit = func([]fold.Reject) error {
			got, err := r.Claims.Take(t.Context(), from, "another")
			if err != nil || got[0].Line != 1 {
				t.Errorf("within a flush the claims are %+v, %v", got, err)
			}
			return nil
		}
		r.again(f)
	}},
}
