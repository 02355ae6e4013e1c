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
// that stays, this costs the server half of what its staging and the MERGE do (BenchmarkFlush_OfCopy/repeated). As
// in a MERGE, such a row is as a snapshot of the transaction has it, is not locked, and nothing is written for it.

const (
	// manyRepeated is how many rows are worth another round trip: each saves 2 µs.
	manyRepeated = 5000
	// notRepeated is for how many flushes rows are not compared after most of them were others.
	notRepeated = 50
	// maxShapes is how many statements read the rows, each those that name the same columns: what none of them
	// names need not be sent, a seventh of what it all takes.
	maxShapes = 8
	// maxRepeated is how many bytes of keys are sent for it, of which this side holds a few copies.
	maxRepeated = 8 << 20
)

// repeated is what is read to find the rows that a batch repeats, by row of those that are to be written.
type repeated struct {
	found []bool
	same  []bool // of those that were found once: tables that inherit from another one may have a key twice
	n     int    // how many
}

// A shape is rows that name the same columns.
type shape struct {
	used []int    // of [merge.used]
	keys [][]byte // the arrays of the key's columns, as SQL, but for their ends
	rows []int
}

// mayRepeat reports whether the rows are compared with the table's before they are staged: after a flush that
// mostly repeated what was there, and where a source is read from its start again.
func (p *part) mayRepeat() bool {
	m := p.merge
	again := slices.ContainsFunc(p.a.f.Lanes, func(l sink.Lane) bool { return l.Restart })
	return (again || p.t.repeats) && p.t.others == 0 && !p.a.piecewise && !p.b.Versioned() && p.t.Exists && !p.after.policed && p.a.d.unicode &&
		len(p.writes) >= manyRepeated && keySize(p.writes) <= maxRepeated &&
		m.owner == nil && len(m.refs) == 0 && !m.sweeps && !slices.ContainsFunc(p.a.parts, func(q *part) bool { return q.b.Child != nil })
}

// keySize is how many bytes the keys of rows have.
func keySize(rows []*fold.Row) (n int) {
	for _, r := range rows {
		n += len(r.Key)
	}
	return n
}

// findRepeated adds what reads the table's rows of the keys. Each is looked for by the key's index, which OFFSET
// leaves the planner alone: it would rather scan the whole table, of which a batch may be a small part.
func (p *part) findRepeated() {
	p.repeated = &repeated{found: make([]bool, len(p.writes)), same: make([]bool, len(p.writes))}
	p.a.script.avoidScans(p.merge.table.relations())
	for _, s := range p.merge.shapes(p.writes) {
		p.findShape(s)
	}
}

// shapes are those of rows that may be repeated, the last one of all that are not of the first ones.
func (m *merge) shapes(rows []*fold.Row) []*shape {
	all, known := []*shape(nil), map[string]*shape{}
	mask := make([]byte, len(m.used))
	for n, r := range rows {
		m.b.PrefetchValues(rows[n:])
		if r.Deleted || r.Replaces || !m.mask(mask, r) {
			continue
		}
		if len(all) >= maxShapes-1 && known[string(mask)] == nil {
			for i := range mask {
				mask[i] = 1
			}
		}
		s := known[string(mask)]
		if s == nil {
			s = &shape{keys: make([][]byte, len(m.table.Key))}
			for i := range mask {
				if mask[i] == 1 {
					s.used = append(s.used, i)
				}
			}
			all, known[string(mask)] = append(all, s), s
		}
		m.addKey(s, r)
		s.rows = append(s.rows, n)
	}
	return all
}

// mask tells which columns a row names, and reports false where one begins with its default.
func (m *merge) mask(mask []byte, r *fold.Row) bool {
	for i := range m.used {
		u := &m.used[i]
		if mask[i] = 0; m.b.Value(r, u.from) != nil {
			mask[i] = 1
		}
		if u.initial >= 0 && m.b.Initial(r, u.from) {
			return false
		}
	}
	return true
}

// findShape adds what reads the rows of a shape.
func (p *part) findShape(s *shape) {
	m, sql := p.merge, &p.a.script.sql
	have := make([]string, len(s.used))
	for i, u := range s.used {
		have[i] = "t." + ident(m.table.Columns[m.used[u].at].Name)
	}
	fmt.Fprintf(sql, "SELECT s.n - 1, %s FROM unnest(", strings.Join(have, ", "))
	var columns []string
	for i, k := range m.table.Key {
		if i > 0 {
			sql.WriteString(", ")
		}
		sql.Write(s.keys[i])
		kind, _, _ := strings.Cut(m.table.cols[k].staged, " COLLATE ") // the column that it is compared with has it
		fmt.Fprintf(sql, "}'::%s[]", kind)
		columns = append(columns, fmt.Sprintf("c%d", k))
	}
	s.keys = nil
	p.a.script.addEach(func(row [][]byte) {
		at := s.rows[number(row[0])]
		m.b.PrefetchValues(p.writes[at:])
		p.repeated.same[at] = !p.repeated.found[at] && m.repeats(s, p.writes[at], row[1:])
		p.repeated.found[at] = true
	}, ") WITH ORDINALITY s (%s, n), LATERAL (SELECT t.* FROM %s t WHERE %s OFFSET 0) t", strings.Join(columns, ", "), m.table.ident, m.on())
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

// repeatsNext decides whether the rows of the next flush are compared first.
func (p *part) repeatsNext() {
	t, rows := p.t, int64(len(p.writes))
	if p.repeated != nil && 2*int64(p.repeated.n) < rows { // or their texts are not the server's
		t.others = notRepeated
	}
	t.others = max(t.others-1, 0)
	t.repeats = t.others == 0 && 4*p.counts.Unchanged >= 3*rows
}

// addKey adds the key of a row to the arrays, with what both an array and a string of SQL escape.
func (m *merge) addKey(s *shape, r *fold.Row) {
	for i, k := range m.table.Key {
		list := s.keys[i]
		if list == nil {
			list = append(list, "E'{"...)
		} else {
			list = append(list, ',')
		}
		list = append(list, '"')
		from := m.used[slices.IndexFunc(m.used, func(u staged) bool { return u.at == k })].from
		for _, c := range m.text(m.b.Value(r, from), m.table.Columns[k].Type) {
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
		s.keys[i] = append(list, '"')
	}
}

// repeats reports whether a row writes what the table has, given the texts of the shape's columns. The key's is
// compared too: one that is too long may have found another row.
func (m *merge) repeats(s *shape, r *fold.Row, have [][]byte) bool {
	for i, n := range s.used {
		u := &m.used[n]
		raw, t := m.b.Value(r, u.from), m.table.Columns[u.at].Type
		switch {
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
