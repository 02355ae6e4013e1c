package postgres

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
)

// A stage is the temporary table that a batch is copied into before it is merged. It is created once and emptied at
// each commit. Behind a pooler, which may give the next flush another session, it is created for each flush.
type stage struct {
	types     map[string]string // of its columns, except those that every stage has; nil: it does not exist
	used      bool              // it may hold rows of this transaction, or dead rows of a rolled-back one
	rows      int               // number of both; 0 if not counted
	functions bool              // the session's functions exist
}

// maxStaged is how many columns of a table fit into the staging table, besides its own: n, op, marks, fill, key and
// state.
const maxStaged = 1600 - 6

func (t *table) stageName() string { return fmt.Sprintf("%sweir_stage_%d", tempSchema, t.n) }

const tempSchema = "pg_temp."

// readyStage returns the statements that empty the staging table, or recreate it if it does not fit, and that create
// the functions, if they are missing; and the stage's state from then on, until the transaction ends.
func (s *shape) readyStage(old stage, pooled bool) (all []string, now stage) {
	need := map[string]string{}
	for _, c := range s.columns {
		need[fmt.Sprintf("c%d", c.at)] = s.table.stagedAs(c.at, c.merge)
	}
	for _, v := range s.copied() {
		need[v.name] = v.kind
	}
	now = stage{types: map[string]string{}}
	maps.Copy(now.types, old.types)
	maps.Copy(now.types, need)
	if len(now.types) > maxStaged { // including columns of earlier batches
		now.types = need
	}
	switch {
	case old.types == nil || !maps.Equal(now.types, old.types):
		if !pooled || old.types != nil {
			all = append(all, "DROP TABLE IF EXISTS "+s.stage)
		}
		all = append(all, now.create(strings.TrimPrefix(s.stage, tempSchema), pooled))
	default:
		if old.used {
			all = append(all, old.emptySQL(s.stage))
		}
		now.rows = old.rows
	}
	if now.used, now.functions = true, old.functions || s.needsFunctions(); now.functions && !old.functions {
		all = append(all, functions...)
	}
	return all, now
}

func (s *stage) create(name string, pooled bool) string {
	columns := []string{`n integer, op "char", marks varbit, fill integer, key bytea, state bytea`}
	for _, name := range slices.SortedFunc(maps.Keys(s.types), func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }) {
		columns = append(columns, name+" "+s.types[name])
	}
	end := "ON COMMIT DELETE ROWS"
	if pooled {
		end = "ON COMMIT DROP"
	}
	return fmt.Sprintf("CREATE TEMP TABLE %s (\n  %s\n) %s", name, strings.Join(columns, ",\n  "), end)
}

// fewStaged is how many rows are emptied with a DELETE at most. A DELETE leaves dead rows that later scans have to
// read, and a TRUNCATE costs a new file.
const fewStaged = 100

// emptySQL returns the statement that empties the named staging table.
func (s *stage) emptySQL(name string) string {
	s.used = false
	if s.rows > 0 && s.rows <= fewStaged {
		return "DELETE FROM " + name
	}
	s.rows = 0
	return "TRUNCATE " + name
}

// A staging writes the rows of a COPY: into the staging table, or into the table itself.
type staging struct {
	*shape
	b      *fold.Batch
	rows   []*fold.Row
	plain  bool               // into the table, with only its columns
	keyed  bool               // with the key as versions have it
	states [][]byte           // see [versions]; nil: not staged
	sent   func(rows, of int) // called from time to time with how many rows were sent; nil: none
	text   valueText
	// Memory for what is staged of a row besides its values, and the numbers of the fills.
	digits, fill []byte
	numbers      map[string]int
}

// statement returns the COPY with its rows.
func (g *staging) statement() statement { return statement{sql: g.copySQL(), copy: g.encode} }

// copySQL returns the COPY statement for the staging's lines.
func (g *staging) copySQL() string {
	if g.plain {
		into, _ := g.inserted("")
		return fmt.Sprintf("COPY %s (%s) FROM STDIN", g.table.ident, strings.Join(into, ", "))
	}
	cols := []string{"n"}
	if g.acts.marked() {
		cols = append(cols, "op")
	}
	if g.marks > 0 {
		cols = append(cols, "marks")
	}
	if len(g.fills) > 1 {
		cols = append(cols, "fill")
	}
	if g.keyed {
		cols = append(cols, "key")
	}
	if g.states != nil {
		cols = append(cols, "state")
	}
	for _, v := range g.copied() {
		cols = append(cols, v.name)
	}
	return fmt.Sprintf("COPY %s (%s) FROM STDIN", g.stage, strings.Join(cols, ", "))
}

// encode writes the rows as lines of a COPY.
func (g *staging) encode(w *copyWriter) error {
	copied, end := g.copied(), []byte(nil)
	g.digits, g.numbers = make([]byte, g.marks), map[string]int{}
	for i, f := range g.fills {
		g.fill, g.numbers[string(f)] = make([]byte, len(f)), i
	}
	if g.plain {
		end = bytes.Repeat([]byte(g.b.Time.UTC().Format(stampFormat+"\t")), len(g.stamps))
	}
	for n, r := range g.rows {
		if n%sentEvery == 0 && g.sent != nil {
			g.sent(n, len(g.rows))
		}
		buf := w.line()
		if !g.plain {
			buf = g.appendFacts(append(strconv.AppendInt(buf, int64(n), 10), '\t'), n)
		}
		for i := range copied {
			v := &copied[i]
			buf = g.append(buf, g.b.Value(r, v.from), v.of.Columns[v.at].Type)
		}
		buf = append(buf, end...)
		buf[len(buf)-1] = '\n' // replaces the last tab
		if err := w.done(buf); err != nil {
			return err
		}
	}
	if g.sent != nil {
		g.sent(len(g.rows), len(g.rows))
	}
	return nil
}

// sentEvery is after how many rows progress is reported.
const sentEvery = 4096

// append appends a value, nil for NULL, and a tab.
func (g *staging) append(line, raw []byte, t schema.Type) []byte {
	if raw == nil || raw[0] == 'n' {
		return append(line, '\\', 'N', '\t')
	}
	return append(g.text.append(line, raw, t), '\t')
}

// appendFacts appends what is staged of a row besides its values.
func (g *staging) appendFacts(line []byte, n int) []byte {
	r := g.rows[n]
	if g.acts.marked() {
		switch {
		case r.Sweeps:
			line = append(line, 's', '\t')
		case r.Deleted:
			line = append(line, 'd', '\t')
		case r.Replaces:
			line = append(line, 'r', '\t')
		default:
			line = append(line, '\\', 'N', '\t')
		}
	}
	if g.marks > 0 {
		if g.readMarks(r) {
			line = append(append(line, g.digits...), '\t')
		} else {
			line = append(line, '\\', 'N', '\t')
		}
	}
	if len(g.fills) > 1 {
		line = append(strconv.AppendInt(line, int64(g.numbers[string(g.fillOf(g.b, r, g.fill))]), 10), '\t')
	}
	if g.keyed {
		line = append(appendHex(line, r.Key), '\t')
	}
	switch {
	case g.states == nil:
	case g.states[n] == nil:
		line = append(line, '\\', 'N', '\t')
	default:
		line = append(appendHex(line, g.states[n]), '\t')
	}
	return line
}

// readMarks writes the digits of a row's marks, and reports whether any is set.
func (g *staging) readMarks(r *fold.Row) (some bool) {
	for i := range g.columns {
		c := &g.columns[i]
		if c.null < 0 {
			continue
		}
		g.digits[c.null] = '0'
		if startsOver(g.b, r, c.from) {
			g.digits[c.null], some = '1', true
		}
	}
	return some
}

// A valueText formats values as texts for the server. It owns the memory of some of them.
type valueText struct{ scratch []byte }

// append appends a value, which the column accepted before, in the format of a COPY.
func (v *valueText) append(dst, raw []byte, t schema.Type) []byte {
	text := v.of(raw, t)
	switch c := raw[0]; {
	case c == '"' && t != schema.JSON && len(text) == len(raw)-2, c != '"' && c != '{' && c != '[':
		return append(dst, text...) // it has no escapes, so nothing needs escaping
	}
	return appendCopyText(dst, text)
}

// of returns the text of a raw value, which the column accepted before. It is valid until the next call.
func (v *valueText) of(raw []byte, t schema.Type) []byte {
	switch c := raw[0]; {
	case c == '"' && t != schema.JSON:
		text := feed.Text(v.scratch, raw, feed.String)
		if len(text) < len(raw)-2 {
			v.scratch = text
		}
		return text
	case c == ' ': // [feed.JSONNull]
		return raw[1:]
	case c == '[' && (t == schema.Array || t == schema.JSONs):
		v.scratch = appendArray(v.scratch[:0], raw, t)
		return v.scratch
	case c == 't' && t == schema.Bits:
		return one
	case c == 'f' && t == schema.Bits:
		return zero
	case t == schema.Int:
		if k := feed.KindOf(raw); k != feed.Int {
			if n, ok := feed.ParseInt(raw, k); ok {
				v.scratch = strconv.AppendInt(v.scratch[:0], n, 10)
				return v.scratch
			} // otherwise the table was altered since the value was accepted, and refuses it
		}
	}
	return raw
}

var zero, one = []byte("0"), []byte("1")

// appendArray appends a JSON array in Postgres' format. Objects in it become texts, and strings in an array of JSON stay
// in quotes.
func appendArray(dst, json []byte, t schema.Type) []byte {
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
			if t != schema.JSONs {
				v = feed.Text(nil, v, w.Kind)
			}
			for _, c := range v {
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
