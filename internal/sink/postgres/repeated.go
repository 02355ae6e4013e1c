package postgres

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about flushes whose rows the table mostly has already, as when a feed is read a second time: the
// table's rows are read first, and only those that are not word for word what the batch has are staged. For a row
// that stays, this costs the server a quarter of what its staging and the MERGE do (BenchmarkFlush_OfCopy/repeated), or
// half where it is looked for by its key. As in a MERGE, such a row is as a snapshot of the transaction has it, is not
// locked, and nothing is written for it.

const (
	// manyRepeated is how many rows are worth another round trip: each saves 2 µs and more.
	manyRepeated = 5000
	// notRepeated is how many flushes do not compare their rows after one that compared them in vain, or look for them
	// by key after one that missed too many of them by ranges of keys.
	notRepeated = 50
	// maxRepeated is how many bytes of keys are sent for it, of which this side holds a few copies.
	maxRepeated = 8 << 20
	// rangeRows is how many rows are looked for by one range of keys, and maxRange how many the table may have there:
	// to read one so takes 0.4 of what it takes to look for it by its key.
	rangeRows = 5000
	maxRange  = rangeRows * 3 / 2
	// maxRead is how many times the batch's bytes may be read: of each row, all columns are that some row of the batch
	// names, and a long text that few of them name costs more than the others save.
	maxRead = 4
)

// repeated is what is read to find the rows that a batch repeats, by row of those that are to be written.
type repeated struct {
	found  []bool
	same   []bool // of those that were found once: tables that inherit from another one may have a key twice
	n      int    // how many
	ranges bool   // they are looked for by ranges of keys
	read   int    // bytes of the table's
}

// mayRepeat reports whether the rows are compared with the table's before they are staged: after a flush that
// mostly repeated what was there, and where a source is read from its start again.
func (p *part) mayRepeat() bool {
	m := p.merge
	again := slices.ContainsFunc(p.a.f.Lanes, func(l sink.Lane) bool { return l.Restart })
	return (again || p.t.repeats) && p.t.others == 0 && !p.a.piecewise && !p.b.Versioned() && p.t.Exists && !p.after.policed &&
		len(p.writes) >= manyRepeated && (p.inRanges() || keySize(p.writes) <= maxRepeated) &&
		m.owner == nil && len(m.refs) == 0 && !m.sweeps && !slices.ContainsFunc(p.a.parts, func(q *part) bool { return q.b.Child != nil })
}

// inRanges reports whether rows are looked for by ranges of keys: where these have an order that is the database's
// too, as far as this side knows, and do not lie scattered among others.
func (p *part) inRanges() bool {
	t := &p.merge.table
	if p.t.scattered > 0 || len(t.Key) != 1 {
		return false
	}
	kind := t.Columns[t.Key[0]].Type
	return kind == schema.Text || kind == schema.Int
}

// keySize is how many bytes the keys of rows have.
func keySize(rows []*fold.Row) (n int) {
	for _, r := range rows {
		n += len(r.Key)
	}
	return n
}

// findRepeated adds what reads the table's rows of the keys.
func (p *part) findRepeated() {
	m, s := p.merge, p.a.script
	p.repeated = &repeated{found: make([]bool, len(p.writes)), same: make([]bool, len(p.writes)), ranges: p.inRanges()}
	have := make([]string, len(m.used))
	for i, u := range m.used {
		have[i] = "t." + ident(m.table.Columns[u.at].Name)
	}
	if p.repeated.ranges {
		p.findRanges(strings.Join(have, ", "))
		return
	}
	s.avoidScans(m.table.relations())
	p.findKeys(strings.Join(have, ", "))
}

// findRanges reads the rows by ranges of the key's index, in their order. Where others lie between them, the rest of
// a range is left to the MERGE; so is all that the database has in another order than the batch.
func (p *part) findRanges(have string) {
	m, s, k := p.merge, p.a.script, p.merge.table.Key[0]
	methods := []string{"enable_seqscan", "enable_bitmapscan", "enable_sort"} // of each range, they would read the whole table
	for _, method := range methods {
		s.add("SET LOCAL %s = off", method)
	}
	var ranges []string
	for rows := range slices.Chunk(p.writes, rangeRows) {
		ranges = append(ranges, fmt.Sprintf("(%s::%s, %s::%[2]s)", literal(string(rows[0].Key)), m.keyType(k), literal(string(rows[len(rows)-1].Key))))
	}
	order, at, key := fold.KeyOrder(&p.b.Table), 0, m.usedAt(k)
	name := "t." + ident(m.table.Columns[k].Name)
	s.addEach(func(row [][]byte) {
		p.repeated.took(row)
		for at < len(p.writes) && order(p.writes[at].Key, row[key]) < 0 {
			at++
		}
		if at < len(p.writes) && bytes.Equal(p.writes[at].Key, row[key]) {
			p.compare(at, row)
		}
	}, "SELECT %s FROM (VALUES %s) r (first, last), LATERAL (SELECT t.* FROM %s t WHERE %s BETWEEN r.first AND r.last ORDER BY %[4]s FETCH FIRST %[5]d ROWS WITH TIES) t",
		have, strings.Join(ranges, ", "), m.table.ident, name, maxRange)
	for _, method := range methods {
		s.add("SET LOCAL %s = DEFAULT", method)
	}
}

// findKeys reads the rows by their keys. Each is looked for by the key's index, which OFFSET leaves the planner alone: it
// would rather scan the whole table, of which a batch may be a small part.
func (p *part) findKeys(have string) {
	m, sql := p.merge, &p.a.script.sql
	fmt.Fprintf(sql, "SELECT %s, s.n - 1 FROM unnest(", have)
	var columns []string
	for i, list := range m.keyLists(p.writes) {
		if i > 0 {
			sql.WriteString(", ")
		}
		sql.Write(list)
		k := m.table.Key[i]
		fmt.Fprintf(sql, "}'::%s[]", m.keyType(k))
		columns = append(columns, fmt.Sprintf("c%d", k))
	}
	p.a.script.addEach(func(row [][]byte) {
		p.repeated.took(row)
		p.compare(int(number(row[len(m.used)])), row)
	}, ") WITH ORDINALITY s (%s, n), LATERAL (SELECT t.* FROM %s t WHERE %s OFFSET 0) t", strings.Join(columns, ", "), m.table.ident, m.on())
}

// keyType is the type of a column of the key, of what is compared with it: its collation is the column's.
func (m *merge) keyType(k int) string {
	kind, _, _ := strings.Cut(m.table.cols[k].staged, " COLLATE ")
	return kind
}

// usedAt is which of the used columns one of the table is.
func (m *merge) usedAt(k int) int {
	return slices.IndexFunc(m.used, func(u staged) bool { return u.at == k })
}

// took counts what was read of a row.
func (r *repeated) took(row [][]byte) {
	for _, v := range row {
		r.read += len(v)
	}
}

// compare notes whether a row is the one that the table has, which was found.
func (p *part) compare(at int, have [][]byte) {
	p.merge.b.PrefetchValues(p.writes[at:])
	p.repeated.same[at] = !p.repeated.found[at] && p.merge.repeats(p.writes[at], have)
	p.repeated.found[at] = true
}

// unlooked has the next flushes, and this one if it starts again, not look where the server refused it or took too
// long: it would each time.
func (a *attempt) unlooked(e *pgconn.PgError) {
	for _, p := range a.parts {
		if p.repeated != nil && e != nil && (isRefusal(e) || e.Code == "57014") {
			p.t.others = notRepeated
		}
	}
}

// dropRepeated makes the merge one of the other rows.
func (p *part) dropRepeated() {
	p.newer = nil
	for i, r := range p.writes {
		if !p.repeated.same[i] {
			p.newer = append(p.newer, r)
		}
	}
	p.repeated.n = len(p.writes) - len(p.newer)
	p.merge = p.a.d.newMerge(p.b, p.t, p.after, p.newer)
}

// repeatsNext decides whether the rows of the next flush are compared first, and how.
func (p *part) repeatsNext() {
	t, rows, unchanged := p.t, int64(len(p.writes)), p.counts.Unchanged
	switch r := p.repeated; {
	case r == nil:
	case r.read > maxRead*p.b.Bytes():
		t.others = notRepeated
	case r.ranges && 4*int64(r.n) < 3*unchanged:
		t.scattered = notRepeated
	case 2*int64(r.n) < rows: // or their texts are not the server's
		t.others = notRepeated
	}
	t.scattered, t.others = max(t.scattered-1, 0), max(t.others-1, 0)
	t.repeats = t.others == 0 && 4*unchanged >= 3*rows
}

// keyLists are the keys of rows as arrays in SQL, but for their ends, with what both an array and a string of SQL escape.
func (m *merge) keyLists(rows []*fold.Row) [][]byte {
	lists, from := make([][]byte, len(m.table.Key)), make([]int, len(m.table.Key))
	for i, k := range m.table.Key {
		lists[i], from[i] = append(lists[i], "E'{"...), m.used[m.usedAt(k)].from
	}
	for n, r := range rows {
		m.b.PrefetchValues(rows[n:])
		for i, k := range m.table.Key {
			list := lists[i]
			if n > 0 {
				list = append(list, ',')
			}
			list = append(list, '"')
			for _, c := range m.text(m.b.Value(r, from[i]), m.table.Columns[k].Type) {
				switch c {
				case '"':
					list = append(list, `\\"`...)
				case '\\':
					list = append(list, `\\\\`...)
				case '\'':
					list = append(list, "''"...)
				default:
					list = append(list, c)
				}
			}
			lists[i] = append(list, '"')
		}
	}
	return lists
}

// repeats reports whether a row writes what the table has, given the texts of the used columns. The key's is
// compared too: one that is too long may have found another row.
func (m *merge) repeats(r *fold.Row, have [][]byte) bool {
	if r.Deleted || r.Replaces {
		return false
	}
	for i := range m.used {
		u := &m.used[i]
		raw, t := m.b.Value(r, u.from), m.table.Columns[u.at].Type
		switch {
		case u.initial >= 0 && m.b.Initial(r, u.from):
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
		case !bytes.Equal(m.text(raw, t), have[i]):
			return false
		}
	}
	return true
}
