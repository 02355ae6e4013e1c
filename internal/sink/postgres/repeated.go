package postgres

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Flushes with rows that are mostly in the table already, as when a feed is read a second time. The table's rows are
// read first, and only rows that differ from the batch are staged. For an unchanged row, this costs the server a
// quarter of staging and MERGE (BenchmarkFlush_OfCopy/repeated). As in a MERGE, the row is read in a snapshot of the
// transaction, is not locked, and nothing is written for it.

const (
	// manyRepeated is how many rows justify another round trip: each saves at least 2 µs.
	manyRepeated = 5000
	// rangeRows is how many rows one range of keys covers, and maxRange how many the table may have there.
	rangeRows = 5000
	maxRange  = rangeRows * 3 / 2
	// maxRead limits the bytes read to a multiple of the batch's. For each row, all columns are read that some row of
	// the batch has; a long text that few rows have can cost more than the others save.
	maxRead = 4
)

// repeated holds what is read to find the rows that a batch repeats, by row to write.
type repeated struct {
	same []bool
	n    int // how many
	read int // bytes read from the table
}

// mayRepeat reports whether to compare the rows with the table's before they are staged: after a flush that mostly
// repeated existing rows, and when a source is reread from its start.
func (p *part) mayRepeat() bool {
	again := slices.ContainsFunc(p.a.f.Lanes, func(l sink.Lane) bool { return l.Restart })
	return (again || p.t.repeats) && !p.t.incomparable && !p.after.inherited && !p.a.piecewise && !p.b.Versioned() && p.t.Exists &&
		len(p.writes) >= manyRepeated && p.inOrder() && len(p.plan.resolved) == 0 &&
		!slices.ContainsFunc(p.plan.columns, func(c staged) bool { return c.merge.Computes() }) &&
		!slices.ContainsFunc(p.a.parts, func(q *part) bool { return q.b.Child != nil })
}

// inOrder reports whether the database sorts the keys in the same order, as far as weir can tell.
func (p *part) inOrder() bool {
	t := &p.after
	if len(t.Key) != 1 {
		return false
	}
	kind := t.Columns[t.Key[0]].Type
	return kind == schema.Text || kind == schema.Int
}

// findRepeated adds statements that read the table's rows by ranges of the key's index, in order. If too many other
// rows lie in a range, its rest is left to the MERGE; so is everything that the database sorts differently.
func (p *part) findRepeated() {
	shape, s, k := p.plan.shape, p.a.script, p.after.Key[0]
	found := &repeated{same: make([]bool, len(p.writes))}
	p.repeated, p.asked = found, func([]result) error { p.dropRepeated(); return nil }
	kind, _, _ := strings.Cut(shape.table.cols[k].staged, " COLLATE ") // its collation is the column's
	var ranges []string
	for rows := range slices.Chunk(p.writes, rangeRows) {
		ranges = append(ranges, fmt.Sprintf("(%s::%s, %s::%[2]s)", literal(string(rows[0].Key)), kind, literal(string(rows[len(rows)-1].Key))))
	}
	order, at := fold.KeyOrder(&p.b.Table), 0
	key := slices.IndexFunc(shape.columns, func(c staged) bool { return c.at == k })
	var text valueText
	s.add("SET LOCAL enable_bitmapscan = off") // it would lose the order of the keys
	s.put(statement{sql: shape.rangesSQL(ranges), each: func(row [][]byte) {
		for _, v := range row {
			found.read += len(v)
		}
		for at < len(p.writes) && order(p.writes[at].Key, row[key]) < 0 {
			at++
		}
		if at < len(p.writes) && bytes.Equal(p.writes[at].Key, row[key]) {
			found.same[at] = text.repeats(shape, p.b, p.writes[at], row)
		}
	}})
	s.add("SET LOCAL enable_bitmapscan = DEFAULT")
}

// rangesSQL reads the columns of rows whose keys are in one of the ranges.
func (s *shape) rangesSQL(ranges []string) string {
	columns := make([]string, len(s.columns))
	for i, c := range s.columns {
		columns[i] = "t." + ident(s.table.Columns[c.at].Name)
	}
	key := "t." + ident(s.table.Columns[s.table.Key[0]].Name)
	return fmt.Sprintf(`SELECT %s
FROM (VALUES %s) r (first, last),
  LATERAL (SELECT t.* FROM %s t WHERE %s BETWEEN r.first AND r.last ORDER BY %[4]s LIMIT %[5]d) t`,
		strings.Join(columns, ", "), strings.Join(ranges, ", "), s.table.ident, key, maxRange)
}

// dropRepeated plans to write the other rows.
func (p *part) dropRepeated() {
	var rows []*fold.Row
	for i, r := range p.writes {
		if !p.repeated.same[i] {
			rows = append(rows, r)
		}
	}
	p.repeated.n = len(p.writes) - len(rows)
	p.plan = p.newPlan(p.b, rows)
}

// repeatsNext decides whether to compare the rows of the next flush. It does not if the comparison missed many repeated
// rows, because others lie between them or their texts are not the server's, or if it read too much.
func (p *part) repeatsNext() {
	t, unchanged := p.t, p.counts.Unchanged
	if r := p.repeated; r != nil && (r.read > maxRead*p.b.Bytes() || 4*int64(r.n) < 3*unchanged) {
		t.incomparable = true
	}
	t.repeats = 4*unchanged >= 3*int64(len(p.writes))
}

// repeats reports whether a row writes what the table already has, given the texts of the used columns. It compares the
// key, too: an overlong key may have found another row.
func (v *valueText) repeats(s *shape, b *fold.Batch, r *fold.Row, have [][]byte) bool {
	if r.Deleted || r.Replaces {
		return false
	}
	for i := range s.columns {
		c := &s.columns[i]
		raw, t := b.Value(r, c.from), s.table.Columns[c.at].Type
		switch {
		case b.Initial(r, c.from):
			return false
		case raw == nil:
		case have[i] == nil || raw[0] == 'n':
			if have[i] != nil || raw[0] != 'n' {
				return false
			}
		case t == schema.Bool && (raw[0] == 't' || raw[0] == 'f'):
			if !bytes.Equal(have[i], raw[:1]) {
				return false
			}
		case !bytes.Equal(v.of(raw, t), have[i]):
			return false
		}
	}
	return true
}
