package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Status implements [sink.Inspector].
func (c *conn) Status(ctx context.Context) (st sink.Status, err error) {
	s := c.db.committed()
	tables := map[string][]string{} // by job
	for _, name := range slices.Sorted(maps.Keys(s.writers)) {
		for _, job := range s.writers[name] {
			tables[job] = append(tables[job], name)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(tables)) {
		st.Jobs = append(st.Jobs, s.status(job, tables[job])...)
	}
	counts := map[sink.RejectCount]int64{} // by job and reason
	for _, k := range s.rejects {
		reason, _, _ := strings.Cut(k.Reason, ":")
		counts[sink.RejectCount{Job: k.Job, Reason: reason}]++
	}
	for r, n := range counts {
		r.Count = n
		st.Rejects = append(st.Rejects, r)
	}
	slices.SortFunc(st.Rejects, func(a, b sink.RejectCount) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return st, ctx.Err()
}

// status returns a job's state in each source that can be resumed; if there is none, the job alone.
func (s *state) status(job string, tables []string) (sources []sink.JobStatus) {
	alone := sink.JobStatus{Job: job, Tables: tables}
	for l, cp := range s.checkpoints {
		if l.job != job {
			continue
		}
		if cp.Committed.After(alone.Updated) {
			alone.Updated = cp.Committed
		}
		if !strings.HasPrefix(l.name, sink.RunPrefix) {
			sources = append(sources, sink.JobStatus{Job: job, Tables: tables, Source: l.name, Line: cp.Line, Offset: cp.Offset, Flushes: cp.Seq, Updated: cp.Committed})
		}
	}
	if len(sources) == 0 {
		return []sink.JobStatus{alone}
	}
	slices.SortFunc(sources, func(a, b sink.JobStatus) int { return cmp.Compare(a.Source, b.Source) })
	return sources
}

// Rejects implements [sink.Inspector].
func (c *conn) Rejects(ctx context.Context, job string, each func(sink.Kept) error) error {
	for _, k := range c.db.committed().rejects {
		if job != "" && k.Job != job {
			continue
		}
		if err := each(k); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// LastRejects implements [sink.Inspector].
func (c *conn) LastRejects(ctx context.Context, job string, n int) (last []sink.Kept, err error) {
	all := c.db.committed().rejects
	for i := len(all) - 1; i >= 0 && len(last) < n; i-- {
		if all[i].Job == job {
			last = append(last, all[i])
		}
	}
	return last, ctx.Err()
}

// StoredRejects implements [sink.Inspector].
func (c *conn) StoredRejects(ctx context.Context, job string) (n int64, err error) {
	err = c.Rejects(ctx, job, func(sink.Kept) error {
		n++
		return nil
	})
	return n, err
}

// Sample implements [sink.Inspector].
func (c *conn) Sample(ctx context.Context, name string, n int) (rows []string, total int64, err error) {
	t := c.db.committed().tables[name]
	if t == nil {
		return nil, 0, fmt.Errorf("table %q is missing", name)
	}
	keys := slices.Sorted(maps.Keys(t.rows))
	for _, key := range keys[:min(n, len(keys))] {
		text, err := t.json(t.rows[key])
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, text)
	}
	return rows, int64(len(t.rows)), ctx.Err()
}

// json returns a row as a JSON object.
func (t *table) json(r row) (string, error) {
	var fields []string
	for i := range t.Columns {
		c := &t.Columns[i]
		var value any
		if text, ok := r[c.Name]; ok {
			value = text
			switch c.Type {
			case schema.Bool, schema.Int, schema.Real, schema.Number, schema.JSON:
				if schema.Special([]byte(text)) == nil {
					value = json.RawMessage(text)
				}
			}
		}
		field, err := json.Marshal(map[string]any{c.Name: value})
		if err != nil {
			return "", err
		}
		fields = append(fields, string(field[1:len(field)-1]))
	}
	return "{" + strings.Join(fields, ",") + "}", nil
}

// Compare implements [sink.Inspector].
func (c *conn) Compare(ctx context.Context, b *fold.Batch, differs func(sink.Difference) bool) error {
	t := c.db.committed().tables[b.Table.Name]
	if t == nil {
		return fmt.Errorf("table %q is missing", b.Table.Name)
	}
	var compared []int // the columns that some message has
	for i := range b.Table.Columns {
		if !b.Table.Columns[i].Key && b.Names(i) {
			compared = append(compared, i)
		}
	}
	for _, r := range b.Sorted() {
		have, exists := t.rows[string(r.Key)]
		d := sink.Difference{Row: r}
		switch {
		case r.Deleted && exists:
			d.Kind = sink.Removed
		case r.Deleted:
			continue
		case !exists:
			d.Kind = sink.Missing
		default:
			if d.Column = t.differing(have, b, r, compared); d.Column < 0 {
				continue
			}
			d.Have = "NULL"
			if text, ok := have[b.Table.Columns[d.Column].Name]; ok {
				d.Have = text
			}
		}
		if !differs(d) {
			return nil
		}
	}
	return ctx.Err()
}

// Sums implements [sink.Inspector].
func (c *conn) Sums(ctx context.Context, b *fold.Batch) (have, want sink.RowSum, err error) {
	t := c.db.committed().tables[b.Table.Name]
	if t == nil {
		return have, want, fmt.Errorf("table %q is missing", b.Table.Name)
	}
	ours, texts := []int(nil), [][]byte(nil) // the batch's columns that some message has
	for i := range b.Table.Columns {
		if b.Names(i) && caps.Find(&t.Table, b.Table.Columns[i].Name, i) >= 0 {
			ours = append(ours, i)
		}
	}
	for _, r := range b.Sorted() {
		texts = texts[:0]
		for _, i := range ours {
			at := caps.Find(&t.Table, b.Table.Columns[i].Name, i)
			if raw := b.Value(r, i); raw == nil || raw[0] == 'n' {
				texts = append(texts, nil)
			} else {
				texts = append(texts, []byte(text(raw, t.Columns[at].Type)))
			}
		}
		if !r.Deleted {
			want.Add(texts)
		}
	}
	for _, row := range t.rows {
		texts = texts[:0]
		for _, i := range ours {
			if is, ok := row[b.Table.Columns[i].Name]; ok {
				texts = append(texts, []byte(is))
			} else {
				texts = append(texts, nil)
			}
		}
		have.Add(texts)
	}
	return have, want, ctx.Err()
}

// Others implements [sink.Inspector].
func (c *conn) Others(ctx context.Context, b *fold.Batch, each func(key string) bool) error {
	t := c.db.committed().tables[b.Table.Name]
	if t == nil {
		return fmt.Errorf("table %q is missing", b.Table.Name)
	}
	known := map[string]bool{}
	for _, r := range b.Sorted() {
		known[string(r.Key)] = true
	}
	for _, key := range slices.Sorted(maps.Keys(t.rows)) {
		if known[key] {
			continue
		}
		var texts []string
		for _, name := range b.Table.KeyColumns() {
			texts = append(texts, t.rows[key][name])
		}
		if !each(strings.Join(texts, ",")) {
			return nil
		}
	}
	return ctx.Err()
}

// differing returns the first of the columns in which a row differs in value from the table's row, or -1. Spelling does
// not matter.
func (t *table) differing(have row, b *fold.Batch, r *fold.Row, columns []int) int {
	for _, i := range columns {
		at := caps.Find(&t.Table, b.Table.Columns[i].Name, i)
		if at < 0 {
			continue
		}
		c, raw := &t.Columns[at], b.Value(r, i)
		is, ok := have[c.Name]
		switch {
		case raw == nil || raw[0] == 'n':
			if ok {
				return i
			}
		case !ok || is != text(raw, c.Type) && !c.Respelled(raw, []byte(is)):
			return i
		}
	}
	return -1
}

// plan describes a table for the user.
func plan(want *schema.Table) []string {
	var added []string
	for i := range want.Columns {
		if c := &want.Columns[i]; c.New || !want.Exists {
			added = append(added, fmt.Sprintf("%s %s", c.Name, c.Type))
		}
	}
	if len(added) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("TABLE %s KEY (%s) GETS %s;", want.Name, strings.Join(want.KeyColumns(), ", "), strings.Join(added, ", "))}
}
