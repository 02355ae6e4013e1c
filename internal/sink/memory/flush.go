package memory

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// conn is one run's connection to a database.
type conn struct {
	db   *database
	seen map[string]string // tables' IDs when last read or written, by name
	last sink.Result       // of the last flush
}

var (
	_ sink.Sink          = (*conn)(nil)
	_ sink.RejectDropper = (*conn)(nil)
	_ sink.Forgetter     = (*conn)(nil)
	_ sink.Inspector     = (*conn)(nil)
)

// Caps implements [sink.Sink].
func (c *conn) Caps() sink.Caps { return caps }

// Close implements [sink.Sink].
func (c *conn) Close() error { return nil }

// Tables implements [sink.Sink].
func (c *conn) Tables(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	return sink.EachTable(wanted, func(_ int, w sink.TableKey) (schema.Table, error) { return c.table(ctx, w.Name, w.Key) })
}

func (c *conn) table(ctx context.Context, name string, key []string) (schema.Table, error) {
	if strings.HasPrefix(name, "weir_") {
		return schema.Table{}, fmt.Errorf("a table cannot be named %q: such names are reserved for weir", name)
	}
	s := c.db.committed()
	c.seen[name] = s.id(name)
	t, err := s.table(name, key)
	t.FullName = name
	if err == nil {
		err = ctx.Err()
	}
	return t, err
}

// id returns a table's ID, or "" if the table does not exist.
func (s *state) id(name string) string {
	if t := s.tables[name]; t != nil {
		return t.ID
	}
	return ""
}

// table returns a table for a key. All tables are created by weir.
func (s *state) table(name string, key []string) (schema.Table, error) {
	missing := schema.Table{Name: name, Writers: s.writers[name]}
	known := s.tables[name]
	if known == nil {
		return missing, nil
	}
	t := known.Clone()
	t.Writers = s.writers[name]
	if key == nil && t.Appends() {
		return t, sink.NoKeyError{Table: name}
	}
	if key == nil {
		return t, nil
	}
	found, err := caps.FindKey(&t, key, nil)
	if err == nil && !slices.Equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(t.Key))) {
		err = fmt.Errorf("the key of table %q is %s", name, t.KeyNames())
	}
	if err != nil {
		return missing, sink.KeyError{Err: err}
	}
	t.Key = found
	return t, nil
}

// Flush implements [sink.Sink].
func (c *conn) Flush(ctx context.Context, f *sink.Flush) (res sink.Result, err error) {
	if err := ctx.Err(); err != nil {
		return res, err
	}
	ids := make([]string, len(f.Batches))
	err = c.db.change(func(s *state) error {
		done, err := s.fence(f)
		if err != nil {
			return err
		}
		if done {
			res = c.last
			s.ids(f, ids)
			return nil
		}
		if f.Rebuild {
			if err := s.empty(f); err != nil {
				return err
			}
		}
		res.Tables = make([]sink.Counts, len(f.Batches))
		for i, b := range f.Batches {
			if err := s.write(f, b, c.seen[b.Table.Name], &res.Tables[i]); err != nil {
				return err
			}
		}
		s.ids(f, ids)
		s.dropRejects(f)
		if f.KeepRejects {
			s.keep(f)
		}
		if f.BeforeCommit != nil {
			if err := f.BeforeCommit(f.Rejects); err != nil {
				return err
			}
		}
		s.checkpoint(f, f.TableIDs(ids...))
		return nil
	})
	if err != nil {
		return sink.Result{}, err
	}
	c.last = res
	for i, b := range f.Batches {
		c.seen[b.Table.Name] = ids[i]
	}
	return res, nil
}

// ids sets the IDs of a flush's tables.
func (s *state) ids(f *sink.Flush, ids []string) {
	for i, b := range f.Batches {
		ids[i] = s.id(b.Table.Name)
	}
}

// fence checks that each lane is at the flush's start.
func (s *state) fence(f *sink.Flush) (done bool, err error) {
	found := map[string]sink.Fence{}
	for i := range f.Lanes {
		name := f.LaneName(&f.Lanes[i])
		if cp, ok := s.checkpoints[lane{f.Job, name}]; ok {
			found[name] = sink.Fence{Seq: cp.Seq, Run: cp.Run}
		}
	}
	return f.Judge(found)
}

// write applies a batch to a table. seen is the ID of the table that the run knows.
func (s *state) write(f *sink.Flush, b *fold.Batch, seen string, res *sink.Counts) error {
	name := b.Table.Name
	if !f.Rebuild && seen != "" && s.id(name) != seen {
		return sink.DroppedError{Table: name}
	}
	if !slices.Contains(s.writers[name], f.Job) {
		s.writers[name] = slices.Sorted(slices.Values(append(slices.Clone(s.writers[name]), f.Job)))
	}
	if t := s.tables[name]; t != nil && b.Truncated != nil {
		res.Deleted += int64(len(t.rows))
		s.tables[name] = &table{Table: t.Table}
	}
	if b.Rows() == 0 {
		return nil // rejects alone create no table
	}
	t, err := s.grow(b)
	if err != nil {
		return err
	}
	s.tables[name] = t
	if b.Versioned() {
		return t.putNewer(b, f.Tombstones, res)
	}
	for _, r := range b.Sorted() {
		if err := t.put(b, r, res); err != nil {
			return err
		}
	}
	return nil
}

// empty removes what the job has written to a flush's tables.
func (s *state) empty(f *sink.Flush) error {
	maps.DeleteFunc(s.checkpoints, func(l lane, _ sink.Checkpoint) bool { return l.job == f.Job })
	s.rejects = slices.DeleteFunc(s.rejects, func(k sink.Kept) bool { return k.Job == f.Job })
	for _, b := range f.Batches {
		name := b.Table.Name
		t, err := s.table(name, b.Table.KeyColumns())
		otherKey := err != nil
		if err := sink.MayRebuild(&t, f.Job); err != nil {
			return err
		}
		switch {
		case otherKey:
			delete(s.tables, name)
		case t.Exists:
			s.tables[name] = &table{Table: s.tables[name].Table}
		}
	}
	return nil
}

// grow returns a copy of a batch's table with the columns and types that it needs.
func (s *state) grow(b *fold.Batch) (*table, error) {
	next, key := &table{}, b.Table.KeyColumns()
	if was := s.tables[b.Table.Name]; was != nil {
		*next = *was
	}
	next.rows, next.versions = orNew(maps.Clone(next.rows)), orNew(maps.Clone(next.versions))
	t, err := s.table(b.Table.Name, key)
	if err != nil {
		return nil, err
	}
	if !t.Exists {
		if len(b.Table.OnCreate) > 0 {
			return nil, sink.OnCreateError(t.Name, errors.New("a database in memory runs no statements"))
		}
		t.Exists, t.Made, t.ID = true, true, sink.NewTableID()
	}
	if _, err := sink.Grow(&t, b); err != nil {
		return nil, err
	}
	for i := range t.Columns {
		c := &t.Columns[i]
		if c.New && c.Stamp != schema.NoStamp {
			for key, r := range next.rows { // without a time they would count as the oldest
				r = maps.Clone(r)
				r[c.Name] = stamp(b)
				next.rows[key] = r
			}
		}
		// The run decides which columns are stamps.
		c.New, c.HoldsTime, c.Stamp = false, c.HoldsTime || c.Type == schema.Instant, schema.NoStamp
	}
	if t.Key, err = caps.FindKey(&t, key, nil); err != nil {
		return nil, err
	}
	t.Writers, t.Versioned = nil, t.Versioned || b.Scope == fold.ColumnScope
	next.Table = t
	return next, nil
}

// put inserts or updates a row.
func (t *table) put(b *fold.Batch, r *fold.Row, res *sink.Counts) error {
	key := string(r.Key)
	if t.Appends() {
		t.appended++
		key = fmt.Sprintf("%020d", t.appended)
	}
	was, exists := t.rows[key]
	if r.Deleted {
		if !exists {
			res.Unchanged++
			return nil
		}
		delete(t.rows, key)
		res.Deleted++
		return nil
	}
	now := row{}
	if exists && !r.Replaces {
		now = maps.Clone(was)
	}
	for i := range b.Table.Columns {
		at := caps.Find(&t.Table, b.Table.Columns[i].Name, i)
		if at < 0 {
			continue // no row of the batch has it
		}
		c, raw := &t.Columns[at], b.Value(r, i)
		switch {
		case raw == nil && b.Initial(r, i), raw != nil && raw[0] == 'n':
			delete(now, c.Name)
		case raw != nil:
			have, filled := now[c.Name]
			raw, ok := b.AppendMerged(nil, r, i, stored(have, filled, c.Type))
			if !ok {
				return fmt.Errorf("table %q: column %q has %q, which its merge function cannot use", t.Name, c.Name, have)
			}
			if raw != nil {
				now[c.Name] = text(raw, c.Type)
			}
		}
	}
	made := !exists || r.Replaces
	for _, c := range stamps(&b.Table) {
		if text, ok := was[c.Name]; ok && made {
			now[c.Name] = text // alone it is no difference
		}
	}
	switch {
	case !exists:
		res.Inserted++
	case maps.Equal(was, now):
		res.Unchanged++
		return nil
	default:
		res.Updated++
	}
	for _, c := range stamps(&b.Table) {
		if made || c.Stamp == schema.UpdateStamp {
			now[c.Name] = stamp(b)
		}
	}
	t.rows[key] = now
	return nil
}

// stored returns what a column of a type stores for a value's text; nil for nothing.
func stored(text string, filled bool, as schema.Type) []byte {
	switch {
	case !filled:
		return nil
	case as == schema.Bytes:
		return fmt.Appendf(nil, `\x%x`, text)
	}
	return []byte(text)
}

// stamps returns the columns of a table that get the time of the flush.
func stamps(t *schema.Table) (columns []schema.Column) {
	for _, c := range t.Columns {
		if c.Stamp != schema.NoStamp {
			columns = append(columns, c)
		}
	}
	return columns
}

// stampFormat is the format of times in columns.
const stampFormat = "2006-01-02 15:04:05.000"

// stamp returns the time of a batch's flush.
func stamp(b *fold.Batch) string { return b.Time.UTC().Format(stampFormat) }

// text returns the text of a value, which is not null, in a column of a type.
func text(raw []byte, as schema.Type) string {
	s := feed.TextOf(raw)
	switch as { // the column accepted it
	case schema.Real:
		if _, isNumber := feed.IsNumber(s); isNumber { // otherwise it is NaN or an infinity
			f, _, _ := feed.ParseReal(s)
			s = feed.AppendReal(nil, f)
		}
	case schema.Bytes:
		s, _ = hex.AppendDecode(nil, s[len(`\x`):])
	}
	return string(s)
}

// putNewer applies a batch whose messages have versions.
func (t *table) putNewer(b *fold.Batch, tombstones time.Duration, res *sink.Counts) error {
	forgotten := time.Now().Add(-tombstones)
	maps.DeleteFunc(t.versions, func(_ string, v version) bool { return !v.gone.IsZero() && v.gone.Before(forgotten) })
	resolver := fold.NewResolver(b, t.versioned, &t.Table)
	column := "" // with the rows' versions
	if b.Version >= 0 {
		column = b.Table.Columns[b.Version].Name
	}
	for _, r := range b.Sorted() {
		have, exists := t.rows[string(r.Key)]
		was := fold.Stored{Exists: exists}
		if b.Scope == fold.ColumnScope {
			was.State = t.versions[string(r.Key)].state
		} else if v, ok := have[column]; ok {
			was.Version = []byte(v)
		}
		now, err := resolver.Resolve(r, was)
		if err != nil {
			return fmt.Errorf("table %q: %w", t.Name, err)
		}
		if now.Unchanged {
			res.Unchanged++
		} else if err := t.put(resolver.Batch(), &now.Row, res); err != nil {
			return err
		}
		if now.State != nil {
			kept := version{state: now.State}
			if now.Row.Deleted {
				kept.gone = time.Now()
			}
			t.versions[string(r.Key)] = kept
		}
	}
	if b.Scope == fold.ColumnScope {
		t.versioned = resolver.Names()
	}
	return nil
}

// dropRejects removes rejected lines: lines of sources that are reread, and old ones.
func (s *state) dropRejects(f *sink.Flush) {
	again := map[string]bool{}
	for _, l := range f.Lanes {
		again[l.Source] = again[l.Source] || l.Restart
	}
	s.rejects = slices.DeleteFunc(s.rejects, func(k sink.Kept) bool {
		return k.Job == f.Job && (again[k.Source] || k.Time.Before(f.DropRejects))
	})
}

// keep stores rejected lines.
func (s *state) keep(f *sink.Flush) {
	now := time.Now()
	for i := range f.Rejects {
		r := &f.Rejects[i]
		s.rejected++
		s.rejects = append(s.rejects, sink.Kept{ID: s.rejected, Job: f.Job, Source: f.Lanes[r.Lane].Source, Line: r.Line, Offset: r.Offset,
			Reason: r.Why(), Text: bytes.Clone(r.Text), Time: now})
	}
}

// checkpoint stores the lanes' checkpoints.
func (s *state) checkpoint(f *sink.Flush, tableID string) {
	now, begun := time.Now(), false // begun: an unnamed lane is at its first flush
	for i := range f.Lanes {
		l := &f.Lanes[i]
		cp := l.Checkpoint
		cp.Run, cp.TableID, cp.Committed = f.Run, tableID, now
		s.checkpoints[lane{f.Job, f.LaneName(l)}] = cp
		begun = begun || l.Unnamed && cp.Seq == 1
	}
	if begun {
		maps.DeleteFunc(s.checkpoints, func(l lane, cp sink.Checkpoint) bool {
			return strings.HasPrefix(l.name, sink.RunPrefix) && now.Sub(cp.Committed) > sink.RunsKept
		})
	}
}

// DropRejects implements [sink.RejectDropper].
func (c *conn) DropRejects(_ context.Context, ids []int64) error {
	return c.db.change(func(s *state) error {
		s.rejects = slices.DeleteFunc(s.rejects, func(k sink.Kept) bool { return slices.Contains(ids, k.ID) })
		return nil
	})
}

// Forget implements [sink.Forgetter].
func (c *conn) Forget(_ context.Context, job string) (f sink.Forgotten, err error) {
	err = c.db.change(func(s *state) error {
		for l := range s.checkpoints {
			if l.job != job {
				continue
			}
			if f.Found = true; !strings.HasPrefix(l.name, sink.RunPrefix) {
				f.Sources++
			}
			delete(s.checkpoints, l)
		}
		kept := len(s.rejects)
		s.rejects = slices.DeleteFunc(s.rejects, func(k sink.Kept) bool { return k.Job == job })
		f.Rejects = int64(kept - len(s.rejects))
		for name, jobs := range s.writers {
			if !slices.Contains(jobs, job) {
				continue
			}
			f.Found = true
			s.writers[name] = slices.DeleteFunc(slices.Clone(jobs), func(j string) bool { return j == job })
			if t := s.tables[name]; t != nil && t.Versioned && len(s.writers[name]) == 0 {
				without := *t
				without.Versioned, without.versioned, without.versions = false, nil, nil
				s.tables[name], f.Versions = &without, true
			}
		}
		return nil
	})
	return f, err
}
