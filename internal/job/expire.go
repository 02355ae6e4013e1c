package job

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// An Expire is when rows of a table are removed: when each of some columns is NULL or old. It
// is the one way in which a table is not the fold of its feed.
type Expire struct {
	After time.Duration // how old
	Of    []string      // the columns; stamps, or others that hold a time
	Every time.Duration // how often they are looked for, beside the start and a source's end; 0: a minute
	// Below are the tables whose rows go with those that they belong to; Owner is as that of such a
	// table.
	Below []schema.Lower
	Owner *schema.Lookup
}

// Explains reports whether a row of a fold may be missing at a time because it was old: each
// of its values in the columns is. What it had in stamps went with it.
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
		if t, ok := timeOf(string(feed.Text(nil, raw, feed.KindOf(raw)))); !ok || !t.Before(before) {
			return false
		}
	}
	return true
}

// timeOf reads a point in time as a driver takes it: in UTC where it names no zone.
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
	// A step that failed is retried, but not for long when nothing else is to be done.
	expireMinWait  = 5 * time.Millisecond
	expireMaxWait  = 5 * time.Second
	expirePatience = 10 * time.Second
)

// An expirer removes old rows of one table. It is the flusher's.
type expirer struct {
	*Expire
	db    sink.Expirer
	table int       // of the run
	below []int     // those of Below
	due   time.Time // when its next step is
	// pass is what is under way; nil between two of them.
	pass    *sink.Expiry
	kept    int64 // rows that the database did not let go, in this pass
	why     string
	waits   backoff.Backoff
	failed  bool // the last step did
	missing bool // it has said which column is
}

func newExpirers(db sink.Sink, tables []Table) (all []*expirer, err error) {
	for i := range tables {
		if x := tables[i].Expire; x != nil {
			removes, err := sink.As[sink.Expirer](db, "remove old rows")
			if err != nil {
				return nil, fmt.Errorf("expire of table %q: %w", tables[i].Name, err)
			}
			e := &expirer{Expire: x, db: removes, table: i, waits: backoff.Backoff{Min: expireMinWait, Max: expireMaxWait}}
			for _, l := range x.Below {
				e.below = append(e.below, slices.IndexFunc(tables, func(t Table) bool { return t.Name == l.Table }))
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// nextExpirer returns the one whose step is due first, or nil.
func (r *run) nextExpirer() (next *expirer) {
	for _, x := range r.expirers {
		if next == nil || x.due.Before(next.due) {
			next = x
		}
	}
	return next
}

// expiryDue fires when a step is due: never where no rows expire.
func (r *run) expiryDue() <-chan time.Time {
	if x := r.nextExpirer(); x != nil {
		return time.After(time.Until(x.due))
	}
	return nil
}

// expireStep makes one step if one is due.
func (r *run) expireStep(ctx context.Context) error {
	if x := r.nextExpirer(); x != nil && !x.due.After(time.Now()) {
		return r.step(ctx, x)
	}
	return nil
}

// expireAll removes all old rows, at the end of a source, or ends what has begun. It does not
// wait long for a database: the next run removes what is left.
func (f *flusher) expireAll(ctx context.Context, stop <-chan struct{}) error {
	end := time.Now().Add(expirePatience)
	for _, x := range f.expirers {
		if f.ended {
			x.pass, x.due = nil, time.Time{}
		}
		for x.pass != nil || !x.due.After(time.Now()) {
			select {
			case <-stop:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Until(x.due)):
			}
			if err := f.step(ctx, x); err != nil {
				return err
			}
			if x.failed && time.Now().After(end) {
				f.Log.Warn(fmt.Sprintf("old rows are left in table %q: the next run removes them", x.pass.Table), "table", x.pass.Table)
				break
			}
		}
	}
	return nil
}

// step removes some old rows of a table. A failure that goes away does not end the run.
func (r *run) step(ctx context.Context, x *expirer) error {
	t, now := &r.Tables[x.table], time.Now()
	if x.pass == nil {
		x.pass, x.kept = &sink.Expiry{Table: t.Name, Key: t.StoredKey(), Owner: x.Owner, Of: x.Of, Before: now.Add(-x.After), Below: x.Below}, 0
	}
	did, err := x.db.Expire(ctx, x.pass)
	if failed := (*sink.Error)(nil); errors.As(err, &failed) && failed.Class != sink.Permanent {
		if !x.failed {
			r.Log.Warn(fmt.Sprintf("removing old rows of table %q: %v; retrying", t.Name, err), "table", t.Name)
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
	r.p.Expired(x.table, did.Removed)
	for i, rows := range did.Below {
		r.p.Expired(x.below[i], rows)
	}
	if did.Kept > 0 {
		x.kept, x.why = x.kept+did.Kept, did.Why
	}
	if !did.Done {
		return nil
	}
	if x.kept > 0 {
		r.Log.Warn(fmt.Sprintf("%d old rows of table %q stay, for the database does not let them go: %s", x.kept, t.Name, x.why), "table", t.Name)
	}
	if did.Missing != "" && !x.missing {
		x.missing = true
		r.Log.Warn(fmt.Sprintf("no row of table %q can expire yet: it has no column %q", t.Name, did.Missing), "table", t.Name)
	}
	x.pass, x.due = nil, now.Add(x.every())
	return nil
}

func (x *Expire) every() time.Duration {
	if x.Every > 0 {
		return x.Every
	}
	return expireEvery
}
