package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// An Expire tells when rows of a table are removed: when each of some columns is NULL or old. Only expiry removes rows
// that the feed did not delete.
type Expire struct {
	After time.Duration // age from which a value is old
	Of    []string      // columns that hold a time, such as stamps
	Every time.Duration // how often to look for old rows, in addition to the start and the end of a source; 0: every minute
	// Below are the descendant tables, whose rows are removed with their parents. Owner is set as in [sink.Expiry].
	Below []schema.Lower
	Owner *schema.Lookup
}

// Explains reports whether expiry may have removed a row of a fold by a given time: each of its values in the columns
// is old. Stamps are not in the fold and count as old.
func (x *Expire) Explains(b *fold.Batch, r *fold.Row, at time.Time) bool {
	before := at.Add(-x.After)
	for _, name := range x.Of {
		column := b.Limits.Find(&b.Table, name, 0)
		if column < 0 || b.Table.Columns[column].Stamp != schema.NoStamp {
			continue
		}
		raw := b.Value(r, column)
		if raw == nil || feed.KindOf(raw) == feed.Null {
			continue
		}
		if t, ok := timeOf(string(feed.TextOf(raw))); !ok || !t.Before(before) {
			return false
		}
	}
	return true
}

// timeOf parses a time as a driver does: in UTC if it names no zone.
func timeOf(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05", time.DateOnly, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

const (
	expireEvery = time.Minute
	// A failed step is retried, but only briefly if there is nothing else to do.
	expireMinWait    = 5 * time.Millisecond
	expireMaxWait    = 5 * time.Second
	expireDrainLimit = 10 * time.Second
)

// An expiry removes old rows from the run's tables, step by step, in all attempts.
type expiry struct {
	db       sink.Expirer
	p        *progress.Progress
	log      *slog.Logger
	expirers []*expirer
}

// An expirer removes the old rows of one table.
type expirer struct {
	*Expire
	table Table
	index int       // of the table
	below []int     // indexes of the tables in Expire.Below
	due   time.Time // when the next step is
	// pass is the current pass over the table, or nil.
	pass    *sink.Expiry
	kept    int64 // rows that the database did not delete in this pass
	why     string
	waits   backoff.Backoff
	failed  bool // the last step failed
	missing bool // it has warned of the missing column
}

func newExpiry(db sink.Sink, tables []Table, p *progress.Progress, log *slog.Logger) (_ *expiry, err error) {
	e := &expiry{p: p, log: log}
	for i := range tables {
		x := tables[i].Expire
		if x == nil {
			continue
		}
		if e.db, err = sink.As[sink.Expirer](db, "remove old rows"); err != nil {
			return nil, fmt.Errorf("expire of table %q: %w", tables[i].Name, err)
		}
		of := &expirer{Expire: x, table: tables[i], index: i, waits: backoff.Backoff{Min: expireMinWait, Max: expireMaxWait}}
		for _, l := range x.Below {
			of.below = append(of.below, slices.IndexFunc(tables, func(t Table) bool { return t.Name == l.Table }))
		}
		e.expirers = append(e.expirers, of)
	}
	return e, nil
}

// next returns the expirer whose step is due first, or nil.
func (e *expiry) next() (next *expirer) {
	for _, x := range e.expirers {
		if next == nil || x.due.Before(next.due) {
			next = x
		}
	}
	return next
}

// begin makes one step, if one is due, before anything is written.
func (e *expiry) begin(ctx context.Context) error {
	if x := e.next(); x != nil && !x.due.After(time.Now()) {
		return e.step(ctx, x)
	}
	return nil
}

// run makes each step when it is due, until the run ends.
func (e *expiry) run(ctx context.Context, turns *turns) error {
	for x := e.next(); x != nil; x = e.next() {
		select {
		case <-time.After(time.Until(x.due)):
		case <-turns.written:
			return e.finish(ctx, turns)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := turns.take(ctx, func(ctx context.Context) error { return e.step(ctx, x) }); err != nil {
			return err
		}
	}
	return nil
}

// finish removes all old rows at the end of a source; otherwise it completes the current pass. It does not wait long
// for an unavailable database: the next run removes what is left.
func (e *expiry) finish(ctx context.Context, turns *turns) error {
	limit := time.Now().Add(expireDrainLimit)
	for _, x := range e.expirers {
		if turns.anyEnded {
			x.pass, x.due = nil, time.Time{}
		}
		for x.pass != nil || !x.due.After(time.Now()) {
			select {
			case <-turns.stop:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(x.due)):
			}
			if err := turns.take(ctx, func(ctx context.Context) error { return e.step(ctx, x) }); err != nil {
				return err
			}
			if x.failed && time.Now().After(limit) {
				e.log.Warn(fmt.Sprintf("old rows are left in table %q: the next run removes them", x.pass.Table), "table", x.pass.Table)
				break
			}
		}
	}
	return nil
}

// step removes some old rows of a table. A transient failure does not end the run.
func (e *expiry) step(ctx context.Context, x *expirer) error {
	t, now := &x.table, time.Now()
	if x.pass == nil {
		x.pass, x.kept = &sink.Expiry{Table: t.Name, Key: t.StoredKey(), Owner: x.Owner, Of: x.Of, Before: now.Add(-x.After), Below: x.Below}, 0
	}
	did, err := e.db.Expire(ctx, x.pass)
	if failed := (*sink.Error)(nil); errors.As(err, &failed) && failed.Class != sink.Permanent {
		if !x.failed {
			e.log.Warn(fmt.Sprintf("removing old rows of table %q: %v; retrying", t.Name, err), "table", t.Name)
		}
		wait, _ := x.waits.Next(math.MaxInt64)
		x.failed, x.due = true, now.Add(wait)
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing old rows of table %q: %w", t.Name, err)
	}
	x.waits.Reset()
	x.failed = false
	e.p.Expired(x.index, did.Removed)
	for i, rows := range did.Below {
		e.p.Expired(x.below[i], rows)
	}
	if did.Kept > 0 {
		x.kept, x.why = x.kept+did.Kept, did.Why
	}
	if !did.Done {
		return nil
	}
	if x.kept > 0 {
		e.log.Warn(fmt.Sprintf("%d old rows of table %q remain, because the database does not delete them: %s", x.kept, t.Name, x.why), "table", t.Name)
	}
	if did.Missing != "" && !x.missing {
		x.missing = true
		e.log.Warn(fmt.Sprintf("no row of table %q can expire yet: it has no column %q", t.Name, did.Missing), "table", t.Name)
	}
	x.pass, x.due = nil, now.Add(cmp.Or(x.Every, expireEvery))
	return nil
}
