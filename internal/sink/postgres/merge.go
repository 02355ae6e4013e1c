package postgres

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// A stage is the table that a batch is copied into before it is merged. The
// server decides which kind it is.
type stage struct {
	kind  stageKind
	made  bool
	used  bool     // it may hold rows of this transaction, or the remains of those of one that was rolled back
	types []string // by column of the table; "" where it has none
	// versions tells that it has columns for what is kept beside a row.
	versions bool
}

type stageKind int

const (
	// session: a temporary table, made once and emptied at each commit.
	session stageKind = iota
	// perFlush: one that is made for each flush, because the next one may be on
	// another session of a pooler.
	perFlush
	// unlogged: a table that is not temporary, where the user may make none.
	unlogged
)

func (k stageKind) String() string {
	return [...]string{"temporary, kept", "temporary, one a flush", "unlogged"}[k]
}

func (d *DB) staging() stageKind {
	switch {
	case !d.temp:
		return unlogged
	case d.pooled:
		return perFlush
	}
	return session
}

func (d *DB) stageName() string {
	if d.staging() != unlogged {
		return "pg_temp.weir_stage"
	}
	h := fnv.New32a()
	h.Write([]byte(d.job + "\x00" + d.table.ident))
	return fmt.Sprintf("%s.weir_stage_%08x", d.schema, h.Sum32())
}

// A merge brings a table up to date with rows of a batch.
type merge struct {
	d     *DB
	b     *fold.Batch
	table relation
	name  string // of the staging table

	used     []staged
	bits     int        // marks that a row has; see staged
	deletes  bool       // rows are deleted
	replaces bool       // rows are replaced
	resets   bool       // columns of rows get their default
	plain    bool       // the COPY takes the columns of the table alone
	versions *versioned // nil where the batch has none
	scratch  []byte
}

// staged is a column that some row of the batch names.
type staged struct {
	at   int // in the table
	from int // in the batch
	// The marks of rows that set it to NULL, and of those in which it begins with its
	// default; -1: no row has one.
	null, initial int
}

func (d *DB) newMerge(b *fold.Batch, table relation, rows []*fold.Row) *merge {
	m := &merge{d: d, b: b, table: table, name: d.stageName()}
	at := make([]int, len(b.Table.Columns))
	names, nulls, initials := make([]bool, len(at)), make([]bool, len(at)), make([]bool, len(at))
	for i := range at {
		at[i] = table.Find(b.Table.Columns[i].Name, i)
	}
	for _, r := range rows {
		m.deletes = m.deletes || r.Deleted
		m.replaces = m.replaces || r.Replaces && !r.Deleted
		for i := range at {
			v := b.Value(r, i)
			if v != nil {
				names[i] = true
				nulls[i] = nulls[i] || v[0] == 'n'
			}
			if !r.Deleted && b.Initial(r, i) {
				names[i], initials[i] = true, true
				m.resets = m.resets || v == nil
			}
		}
	}
	for i := range at {
		if names[i] && at[i] >= 0 && !table.Columns[at[i]].Generated {
			s := staged{at: at[i], from: i, null: -1, initial: -1}
			if nulls[i] {
				s.null = m.bits
				m.bits++
			}
			if initials[i] {
				s.initial = m.bits
				m.bits++
			}
			m.used = append(m.used, s)
		}
	}
	return m
}

// prepare returns the statements that make the staging table, where the one that
// is there does not serve, and empty it. now is that table from then on, until the
// transaction ends.
func (m *merge) prepare() (sql []string, now stage) {
	old := m.d.stage
	now = stage{kind: m.d.staging(), made: true, used: true, types: make([]string, len(m.table.cols)), versions: old.versions || m.versions != nil}
	copy(now.types, old.types)
	serves := old.made && old.kind == now.kind && old.versions == now.versions
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
		if now.versions {
			b.WriteString(", key bytea, state bytea")
		}
		kind, end := "TEMP", "ON COMMIT DELETE ROWS"
		switch now.kind {
		case perFlush:
			end = "ON COMMIT DROP"
		case unlogged:
			kind, end = "UNLOGGED", ""
		}
		name := strings.TrimPrefix(m.name, "pg_temp.")
		if now.kind != perFlush || old.made {
			sql = append(sql, "DROP TABLE IF EXISTS "+m.name)
		}
		sql = append(sql, fmt.Sprintf(`CREATE %s TABLE %s (n integer, op "char", marks varbit%s) %s`, kind, name, b.String(), end))
	} else if now.kind == unlogged || old.used {
		sql = append(sql, "TRUNCATE "+m.name)
	}
	return sql, now
}

// copySQL is the COPY that takes what encode writes.
func (m *merge) copySQL() string {
	cols := []string{"n"}
	if m.deletes || m.replaces {
		cols = append(cols, "op")
	}
	if m.bits > 0 {
		cols = append(cols, "marks")
	}
	if m.versions != nil {
		cols = append(cols, "key", "state")
	}
	for _, u := range m.used {
		cols = append(cols, "c"+strconv.Itoa(u.at))
	}
	return fmt.Sprintf("COPY %s (%s) FROM STDIN", m.name, strings.Join(cols, ", "))
}

// encode writes the rows as the lines of a COPY.
func (m *merge) encode(rows []*fold.Row) copier {
	return func(w *copyWriter) error {
		marks := make([]byte, m.bits)
		for n, r := range rows {
			buf := w.line()
			if !m.plain {
				buf = append(strconv.AppendInt(buf, int64(n), 10), '\t')
			}
			if !m.plain && (m.deletes || m.replaces) {
				switch {
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
			if !m.plain && m.versions != nil {
				buf = append(appendHex(buf, r.Key), '\t')
				if m.versions.looking || m.versions.states[n] == nil {
					buf = append(buf, '\\', 'N', '\t')
				} else {
					buf = append(appendHex(buf, m.versions.states[n]), '\t')
				}
			}
			for i := range m.used {
				u := &m.used[i]
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
			if err := w.done(append(buf, '\n')); err != nil {
				return err
			}
		}
		return nil
	}
}

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
	switch c := raw[0]; {
	case c == '"' && t != schema.JSON:
		text := feed.Text(m.scratch, raw, feed.String)
		if len(text) == len(raw)-2 { // it has no escapes, and so nothing to escape
			return append(dst, text...)
		}
		m.scratch = text
		return appendCopyText(dst, text)
	case c == '[' && t == schema.Array:
		m.scratch, _ = appendArray(m.scratch[:0], raw)
		return appendCopyText(dst, m.scratch)
	case c == '"' || c == '{' || c == '[':
		return appendCopyText(dst, raw)
	case t == schema.Int:
		if k := feed.KindOf(raw); k != feed.Int {
			if n, ok := feed.ParseInt(raw, k); ok {
				return strconv.AppendInt(dst, n, 10)
			} // else the table was altered since the value was admitted, and refuses it
		}
	}
	return append(dst, raw...)
}

// appendArray appends a JSON array as Postgres writes arrays, and returns what
// follows it. Objects in it become texts.
func appendArray(dst, json []byte) (_, rest []byte) {
	dst = append(dst, '{')
	for json = skip(json[1:]); json[0] != ']'; json = skip(json) {
		if json[0] == ',' {
			dst = append(dst, ',')
			json = skip(json[1:])
		}
		if json[0] == '[' {
			dst, json = appendArray(dst, json)
			continue
		}
		end := valueEnd(json)
		switch v := json[:end]; v[0] {
		case 'n':
			dst = append(dst, "NULL"...)
		case '"', '{':
			if v[0] == '"' {
				v = feed.Text(nil, v, feed.String)
			}
			dst = append(dst, '"')
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
		json = json[end:]
	}
	return append(dst, '}'), json[1:]
}

func skip(json []byte) []byte {
	for json[0] == ' ' || json[0] == '\t' || json[0] == '\r' {
		json = json[1:]
	}
	return json
}

// valueEnd returns the end of the value that valid JSON begins with.
func valueEnd(json []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch json[i] {
		case '"':
			for i++; json[i] != '"'; i++ {
				if json[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
			if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\r':
			if depth == 0 {
				return i
			}
			continue
		default:
			continue
		}
		if depth == 0 {
			return i + 1
		}
	}
}

// tags are the numbers of a merge's statements in its script; insert is -1 where there
// is none.
type tags struct {
	insert         int
	update, delete []int
}

// direct reports whether the rows can be copied into the table itself, for they
// are all new, it seems: that takes a third of the time. Where one is not, the
// database refuses it, and the flush begins again.
func (m *merge) direct() bool {
	return !m.deletes && !m.table.policed && !slices.ContainsFunc(m.used, func(u staged) bool { return m.table.Columns[u.at].Default != "" })
}

// copyAll adds what copies rows into the table that are not in it.
func (m *merge) copyAll(s *script, rows []*fold.Row) tags {
	into := make([]string, len(m.used))
	for i, u := range m.used {
		into[i] = ident(m.table.Columns[u.at].Name)
	}
	m.plain = true
	n := s.add("COPY %s (%s) FROM STDIN", m.table.ident, strings.Join(into, ", "))
	s.copies = append(s.copies, m.encode(rows))
	return tags{insert: n}
}

// statements adds what brings the table up to date. New rows come first, in the
// order of their keys: who waits there for another writer's row holds no lock on
// a row that is there. Then the rows that are to change are locked in that order.
// So writers that all do this cannot wait for each other in a circle.
//
// Rows are locked and changed in slices of so many: where the table is larger than
// the memory, the pages that were read to lock a row are gone when all are locked.
func (m *merge) statements(s *script, rows []*fold.Row, slice int) (t tags) {
	t.insert = -1
	if len(rows) == 0 {
		return t // nothing is newer than what is there
	}
	s.add("%s", m.copySQL())
	s.copies = append(s.copies, m.encode(rows))
	set, differs := m.assignments()
	// A row that was just inserted may be another than the staged one: then it is
	// marked, and left alone.
	marked := set != "" && (m.table.triggers || (m.replaces || m.resets) && m.defaults())
	t.insert = m.insert(s, marked)
	var touched []string
	if set != "" {
		lives := ""
		if m.deletes {
			lives = "s.op IS DISTINCT FROM 'd' AND "
		}
		if marked {
			lives += "s.op IS DISTINCT FROM 'i' AND "
		}
		touched = append(touched, lives+"(t.ctid IS NULL OR "+differs+")")
		// A row that was just locked shows it, unless others share the lock: that
		// saves comparing it a second time. Where a table has rules, the check of a
		// foreign key may have locked it too.
		if !m.table.Judged {
			differs = "(t.xmax = pg_current_xact_id()::xid OR " + differs + ")"
		}
		differs = lives + differs
	}
	if m.deletes {
		touched = append(touched, "s.op = 'd' AND t.ctid IS NOT NULL")
	}
	if len(touched) == 0 {
		return t
	}
	for from := 0; from < len(rows); from += slice {
		in := ""
		if slice < len(rows) {
			in = fmt.Sprintf("s.n >= %d AND s.n < %d AND ", from, from+slice)
		}
		m.lock(s, in+"("+strings.Join(touched, " OR ")+")")
		// Where nothing was locked, the rest is not even looked at.
		in += "current_setting('weir.touched') <> '0' AND "
		if set != "" {
			t.update = append(t.update, s.add("UPDATE %s t SET %s FROM %s s WHERE %s%s AND %s", m.table.ident, set, m.name, in, m.on(), differs))
		}
		if m.deletes {
			t.delete = append(t.delete, s.add("DELETE FROM %s t USING %s s WHERE %s%s AND s.op = 'd'", m.table.ident, m.name, in, m.on()))
		}
	}
	return t
}

const goneWord = "weir: rows are gone"

// lock adds what locks the table's rows that staged ones touch, and demands that it lock
// all of them. A row that another session deletes or gives another key, after the INSERT
// saw it or while its lock is waited for, is not there to be locked, even if that session
// makes a new one of its key: then the flush starts again. Where a trigger or a policy
// may keep rows away for good, it starts again once.
func (m *merge) lock(s *script, touched string) {
	strength := "NO KEY UPDATE"
	if m.deletes {
		strength = "UPDATE"
	}
	key := make([]string, len(m.table.Key))
	for i, k := range m.table.Key {
		key[i] = fmt.Sprintf("s.c%d", k)
	}
	count := "x.n::text"
	if !(m.table.triggers || m.table.policed) || m.d.gone == 0 {
		// A number that is none ends the transaction, as with the fence.
		count = fmt.Sprintf("CASE WHEN x.n < y.n THEN ('%s' || y.n - x.n)::int::text ELSE %s END", goneWord, count)
	}
	s.add("WITH c AS MATERIALIZED (SELECT s.n, %s FROM %s s LEFT JOIN %s t ON %s WHERE %s)"+
		" SELECT set_config('weir.touched', %s, true) FROM (SELECT count(*) n FROM (SELECT FROM c s JOIN %[3]s t ON %[4]s ORDER BY s.n FOR %[7]s OF t) l) x, (SELECT count(*) n FROM c) y",
		strings.Join(key, ", "), m.name, m.table.ident, m.on(), touched, count, strength)
}

// on is the condition that a staged row and one of the table have the same key.
func (m *merge) on() string {
	parts := make([]string, len(m.table.Key))
	for i, k := range m.table.Key {
		parts[i] = fmt.Sprintf("%s = s.c%d", m.table.compared(k), k)
	}
	return strings.Join(parts, " AND ")
}

// absent is the condition that a staged row does not name a column, where its
// staged value is NULL.
func (m *merge) absent(u *staged) string {
	if u.null < 0 {
		return "true"
	}
	return fmt.Sprintf("get_bit(s.marks, %d) IS DISTINCT FROM 1", u.null)
}

// begins is the condition that in a staged row a column begins with its default; with
// other that another condition holds or that.
func (m *merge) begins(u *staged, other string) string {
	if u.initial < 0 {
		return other
	}
	return fmt.Sprintf("(%s OR get_bit(s.marks, %d) = 1)", other, u.initial)
}

// initial is the expression of a column's default.
func (m *merge) initial(at int) string { return cmp.Or(m.table.Columns[at].Default, "NULL") }

// insert adds what inserts the rows that are not there, and returns the number of
// the statement that counts them, by their marks where they are to be marked.
func (m *merge) insert(s *script, marked bool) int {
	var into, from []string
	for i := range m.used {
		u := &m.used[i]
		into = append(into, ident(m.table.Columns[u.at].Name))
		v := fmt.Sprintf("s.c%d", u.at)
		if m.table.Columns[u.at].Default != "" {
			v = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", m.begins(u, v+isNull+" AND "+m.absent(u)), m.initial(u.at), v)
		}
		from = append(from, v)
	}
	key := make([]string, len(m.table.Key))
	for i, k := range m.table.Key {
		key[i] = ident(m.table.Columns[k].Name)
	}
	lives := ""
	if m.deletes {
		lives = "s.op IS DISTINCT FROM 'd' AND "
	}
	keys := strings.Join(key, ", ")
	insert := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s s WHERE %sNOT EXISTS (SELECT FROM %s t WHERE %s) ORDER BY s.n",
		m.table.ident, strings.Join(into, ", "), strings.Join(from, ", "), m.name, lives, m.table.ident, m.on())
	passing := insert + " ON CONFLICT (" + keys + ") DO NOTHING"
	if marked {
		passing = fmt.Sprintf("WITH t AS (%s RETURNING %s) UPDATE %s s SET op = 'i' FROM t WHERE %s", passing, keys, m.name, m.on())
	}
	n := s.add("%s", passing)
	if m.table.hides {
		// A row that others made in the meantime is seen by now. What is not, a policy
		// hides: then this is refused.
		s.add("%s", insert)
	}
	return n
}

// defaults reports whether the table has columns with a default, which may be
// another one each time that it is asked for.
func (m *merge) defaults() bool {
	return slices.ContainsFunc(m.table.Columns, func(c schema.Column) bool { return c.Default != "" && !c.Generated })
}

// assignments returns the SET list of the UPDATE, and the condition that it
// changes a row. Both are empty where no row of the batch names a column beside
// its key.
func (m *merge) assignments() (set, differs string) {
	var sets, conditions []string
	add := func(at int, value, differs string) {
		sets = append(sets, ident(m.table.Columns[at].Name)+" = "+value)
		conditions = append(conditions, differs)
	}
	for i := range m.used {
		u := &m.used[i]
		c := &m.table.Columns[u.at]
		if c.Key {
			continue
		}
		was, is := "t."+ident(c.Name), fmt.Sprintf("s.c%d", u.at)
		switch image := m.table.cols[u.at].image; {
		case m.b.FillOnly:
			add(u.at, "coalesce("+was+", "+is+")", was+isNull+" AND "+is+notNull)
		case u.null < 0 && u.initial < 0 && !m.replaces:
			add(u.at, "coalesce("+is+", "+was+")", is+notNull+" AND "+distinct(image, is, was))
		default:
			value := fmt.Sprintf("CASE WHEN %s"+isNull+" AND %s THEN %s ELSE %[1]s END", is, m.absent(u), m.unnamed(u))
			add(u.at, value, distinct(image, value, was))
		}
	}
	if m.replaces {
		for at := range m.table.Columns {
			c := &m.table.Columns[at]
			if !c.Key && !c.Generated && !slices.ContainsFunc(m.used, func(u staged) bool { return u.at == at }) {
				value := m.unnamed(&staged{at: at, null: -1, initial: -1})
				add(at, value, distinct(m.table.cols[at].image, value, "t."+ident(c.Name)))
			}
		}
		if m.defaults() {
			conditions = append(conditions[:0], "s.op = 'r'", "("+strings.Join(conditions, " OR ")+")")
			return strings.Join(sets, ", "), "(" + strings.Join(conditions, " OR ") + ")"
		}
	}
	if len(sets) == 0 {
		return "", ""
	}
	return strings.Join(sets, ", "), "(" + strings.Join(conditions, " OR ") + ")"
}

// unnamed is the value of a column that a row does not name: what the table has,
// or the default where the row or the column starts from nothing.
func (m *merge) unnamed(u *staged) string {
	was := "t." + ident(m.table.Columns[u.at].Name)
	if !m.replaces && u.initial < 0 {
		return was
	}
	return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", m.begins(u, "s.op = 'r'"), m.initial(u.at), was)
}

// Whether a value is NULL. IS NULL would ask the fields of a composite value.
const isNull, notNull = " IS NOT DISTINCT FROM NULL", " IS DISTINCT FROM NULL"

func distinct(image, a, b string) string {
	return fmt.Sprintf(image, a) + " IS DISTINCT FROM " + fmt.Sprintf(image, b)
}
