package postgres

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A stage is the temporary table that a batch is copied into before it is merged: made once and emptied at each commit,
// or made for each flush behind a pooler, which may lead the next one to another session.
type stage struct {
	made  bool
	used  bool     // it may hold rows of this transaction, or the remains of those of one that was rolled back
	rows  int      // how many, of both; 0 where that is not counted
	types []string // by column of the table; "" where it has none
	// hidden are the types of columns that the table does not have, by those of the batch.
	hidden map[int]string
	// versions tells that it has columns for what is kept beside a row.
	versions bool
}

// maxStaged is how many columns of a table the staging table has room for, beside its own:
// n, op, nulls, key, state and found.
const maxStaged = 1600 - 6

// stageName is the name of a table's staging table.
func (t *table) stageName() string { return "pg_temp." + t.stageIdent() }

func (t *table) stageIdent() string { return fmt.Sprintf("weir_stage_%d", t.n) }

// manyStaged is how many rows are worth a new file for the staging table, 0.5 ms, that they lie in order.
const manyStaged = 2000

// prepare returns the statements that make the staging table of some rows, where the one that
// is there does not serve, and empty it. now is that table from then on, until the
// transaction ends. A COPY into a temporary table that its transaction has made or truncated has its rows in order;
// else it puts one that is short where a page before has room for it.
func (m *merge) prepare(rows int) (sql []string, now stage) {
	old := m.t.stage
	now = stage{made: true, used: true, types: make([]string, len(m.table.cols)), versions: old.versions || m.versions != nil, hidden: map[int]string{}}
	copy(now.types, old.types)
	maps.Copy(now.hidden, old.hidden)
	if len(now.types)+len(now.hidden) > maxStaged { // those of other batches may be too many beside these
		clear(now.types)
		clear(now.hidden)
	}
	serves := old.made && old.versions == now.versions
	for from, t := range m.hidden() {
		if now.hidden[from] != t {
			now.hidden[from], serves = t, false
		}
	}
	for _, u := range m.used {
		if t := m.table.cols[u.at].staged; now.types[u.at] != t {
			now.types[u.at], serves = t, false
		}
	}
	if !serves {
		var b strings.Builder
		for i, t := range now.types {
			if t != "" {
				fmt.Fprintf(&b, ", c%d %s", i, t)
			}
		}
		for _, from := range slices.Sorted(maps.Keys(now.hidden)) {
			fmt.Fprintf(&b, ", %s %s", hiddenName(from), now.hidden[from])
		}
		if now.versions {
			b.WriteString(", key bytea, state bytea, found xid")
		}
		end := "ON COMMIT DELETE ROWS"
		if m.d.pooled {
			end = "ON COMMIT DROP"
		}
		if !m.d.pooled || old.made {
			sql = append(sql, "DROP TABLE IF EXISTS "+m.t.stageName())
		}
		sql = append(sql, fmt.Sprintf(`CREATE TEMP TABLE %s (n integer, op "char", marks varbit%s) %s`, m.t.stageIdent(), b.String(), end))
	} else if old.used || rows >= manyStaged {
		sql = append(sql, old.empty(m.t.stageName()))
	}
	m.inOrder = len(sql) > 0 && !strings.HasPrefix(sql[0], "DELETE")
	return sql, now
}

// fewStaged is how many rows a staging table may have that is emptied by a DELETE: that leaves
// something to read for whoever scans it, and a TRUNCATE costs a new file.
const fewStaged = 100

// empty returns the statement that empties the staging table of a name.
func (s *stage) empty(name string) string {
	s.used = false
	if s.rows > 0 && s.rows <= fewStaged {
		return "DELETE FROM " + name
	}
	s.rows = 0
	return "TRUNCATE " + name
}

// copySQL is the COPY that takes what encode writes.
func (m *merge) copySQL() string {
	cols := []string{"n"}
	if m.marked() {
		cols = append(cols, "op")
	}
	if m.bits > 0 {
		cols = append(cols, "marks")
	}
	if m.stagesFound() {
		cols = append(cols, "key", "state", "found")
	}
	for _, u := range m.used {
		if !u.found {
			cols = append(cols, "c"+strconv.Itoa(u.at))
		}
	}
	if m.owner != nil {
		for _, from := range m.owner.From {
			cols = append(cols, hiddenName(from))
		}
	}
	for _, r := range m.refs {
		cols = append(cols, hiddenName(r.From[0]))
	}
	return fmt.Sprintf("COPY %s (%s) FROM STDIN", m.t.stageName(), strings.Join(cols, ", "))
}

// marked tells that staged rows say what they do.
func (m *merge) marked() bool {
	return m.deletes || m.replaces || m.sweeps
}

// stagesFound tells that staged rows have what is kept beside rows, or what was found of them.
func (m *merge) stagesFound() bool {
	return m.versions != nil
}

// encode writes the rows as the lines of a COPY.
func (m *merge) encode(rows []*fold.Row) copier {
	return func(w *copyWriter) error {
		marks := make([]byte, m.bits)
		end := []byte{'\n'}
		if m.plain {
			end = append(bytes.Repeat([]byte(m.b.Time.UTC().Format("\t"+stampFormat)), len(m.stamps)), '\n')
		}
		for n, r := range rows {
			if n%sentEvery == 0 && m.sent != nil {
				m.sent(n, len(rows))
			}
			m.b.PrefetchValues(rows[n:])
			buf := w.line()
			if !m.plain {
				buf = append(strconv.AppendInt(buf, int64(n), 10), '\t')
			}
			if !m.plain && m.marked() {
				switch {
				case r.Sweeps:
					buf = append(buf, 's', '\t')
				case r.Deleted:
					buf = append(buf, 'd', '\t')
				case r.Replaces:
					buf = append(buf, 'r', '\t')
				default:
					buf = append(buf, '\\', 'N', '\t')
				}
			}
			if !m.plain && m.bits > 0 {
				if m.marks(r, marks) {
					buf = append(append(buf, marks...), '\t')
				} else {
					buf = append(buf, '\\', 'N', '\t')
				}
			}
			if !m.plain && m.stagesFound() {
				buf = append(appendHex(buf, r.Key), '\t')
				buf = m.versions.appendTo(buf, n)
			}
			for i := range m.used {
				u := &m.used[i]
				if u.found {
					continue
				}
				if i > 0 {
					buf = append(buf, '\t')
				}
				raw := m.b.Value(r, u.from)
				if raw == nil || raw[0] == 'n' {
					buf = append(buf, '\\', 'N')
				} else {
					buf = m.value(buf, raw, m.table.Columns[u.at].Type)
				}
			}
			if m.owner != nil {
				buf = m.appendHidden(buf, r)
			}
			buf = m.appendRefs(buf, r)
			if err := w.done(append(buf, end...)); err != nil {
				return err
			}
		}
		if m.sent != nil {
			m.sent(len(rows), len(rows))
		}
		return nil
	}
}

// sentEvery is after how many rows it is told that they were sent.
const sentEvery = 4096

// marks writes the digits of a row's marks, and reports whether any is set.
func (m *merge) marks(r *fold.Row, digits []byte) (some bool) {
	set := func(mark int, is bool) {
		digits[mark] = '0'
		if is {
			digits[mark], some = '1', true
		}
	}
	for i := range m.used {
		u := &m.used[i]
		if u.null >= 0 {
			raw := m.b.Value(r, u.from)
			set(u.null, raw != nil && raw[0] == 'n')
		}
		if u.initial >= 0 {
			set(u.initial, m.b.Initial(r, u.from))
		}
	}
	return some
}

// value appends a value for a column, which admitted it before.
func (m *merge) value(dst, raw []byte, t schema.Type) []byte {
	text := m.text(raw, t)
	switch c := raw[0]; {
	case c == '"' && t != schema.JSON && len(text) == len(raw)-2, c != '"' && c != '{' && c != '[':
		return append(dst, text...) // it has no escapes, and so nothing to escape
	}
	return appendCopyText(dst, text)
}

// text is a raw value for a column, which admitted it before, as the text that the server reads. It may point
// into m.scratch.
func (m *merge) text(raw []byte, t schema.Type) []byte {
	switch c := raw[0]; {
	case c == '"' && t != schema.JSON:
		text := feed.Text(m.scratch, raw, feed.String)
		if len(text) < len(raw)-2 {
			m.scratch = text
		}
		return text
	case c == '[' && t == schema.Array:
		m.scratch = appendArray(m.scratch[:0], raw)
		return m.scratch
	case t == schema.Int:
		if k := feed.KindOf(raw); k != feed.Int {
			if n, ok := feed.ParseInt(raw, k); ok {
				m.scratch = strconv.AppendInt(m.scratch[:0], n, 10)
				return m.scratch
			} // else the table was altered since the value was admitted, and refuses it
		}
	}
	return raw
}

// appendArray appends a JSON array as Postgres writes arrays. Objects in it become texts.
func appendArray(dst, json []byte) []byte {
	open, comma := 0, false
	w := feed.Walk(json)
	for w.Next() {
		for ; open > w.Depth; open-- {
			dst, comma = append(dst, '}'), true
		}
		if comma {
			dst = append(dst, ',')
		}
		if comma = true; w.Kind == feed.JSON && w.Array() {
			dst, open, comma = append(dst, '{'), open+1, false
			continue
		}
		switch v := w.Raw(); w.Kind {
		case feed.Null:
			dst = append(dst, "NULL"...)
		case feed.String, feed.JSON:
			dst = append(dst, '"')
			for _, c := range feed.Text(nil, v, w.Kind) {
				if c == '"' || c == '\\' {
					dst = append(dst, '\\')
				}
				dst = append(dst, c)
			}
			dst = append(dst, '"')
		default:
			dst = append(dst, v...)
		}
	}
	for ; open > 0; open-- {
		dst = append(dst, '}')
	}
	return dst
}
