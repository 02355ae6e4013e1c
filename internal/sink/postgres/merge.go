package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A merge brings a table up to date with rows of a batch.
type merge struct {
	d     *DB
	t     *table // as it is known
	b     *fold.Batch
	table relation // as it is written to

	used     []staged
	refs     []reference
	owner    *ownership // nil where the rows name those that they belong to by their keys
	stamps   []stamped
	bits     int        // marks that a row has; see staged
	deletes  bool       // rows are deleted
	replaces bool       // rows are replaced
	sweeps   bool       // staged rows are keys of rows above; see [fold.Explode]
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
	// found tells that no row names it: it has what the rows are named by that others belong to.
	found bool
}

// stamped is a column of the table that is a stamp.
type stamped struct {
	at   int
	when schema.Stamp
}

func (d *DB) newMerge(b *fold.Batch, t *table, table relation, rows []*fold.Row) *merge {
	m := &merge{d: d, t: t, b: b, table: table}
	place := make([]int, len(b.Table.Columns)) // of the batch's columns in the table
	names, nulls, initials := make([]bool, len(place)), make([]bool, len(place)), make([]bool, len(place))
	for i := range place {
		c := &b.Table.Columns[i]
		place[i] = caps.Find(&table.Table, c.Name, i)
		if c.Stamp != schema.NoStamp && place[i] >= 0 {
			m.stamps = append(m.stamps, stamped{place[i], c.Stamp})
		}
	}
	if at := b.Table.Surrogate(); at >= 0 {
		if at = caps.Find(&table.Table, b.Table.Columns[at].Name, at); at >= 0 {
			m.table.Columns = slices.Clone(table.Columns)
			m.table.Columns[at].Generated = true
		}
	}
	for _, r := range rows {
		m.deletes = m.deletes || r.Deleted
		m.replaces = m.replaces || r.Replaces && !r.Deleted
		m.sweeps = m.sweeps || r.Sweeps
		for i := range place {
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
	for _, k := range b.Table.Key {
		names[k] = names[k] || m.sweeps // which a row may be compared with that has none
	}
	add := func(at, from int, null bool) *staged {
		i := slices.IndexFunc(m.used, func(u staged) bool { return u.at == at })
		if i < 0 {
			i = len(m.used)
			m.used = append(m.used, staged{at: at, from: from, null: -1, initial: -1, found: at != place[from]})
		}
		s := &m.used[i]
		if s.null < 0 && null {
			s.null = m.bits
			m.bits++
		}
		if initials[from] && s.initial < 0 {
			s.initial = m.bits
			m.bits++
		}
		return s
	}
	for i, at := range place {
		if names[i] && at >= 0 && !table.Columns[at].Generated {
			add(at, i, nulls[i])
		}
	}
	m.owner = m.newOwnership()
	m.newReferences(names, func(at, from int, null bool) *staged { return add(at, from, null || nulls[from]) })
	return m
}

// tags are the numbers of a merge's statements in its script; insert is -1 where there
// is none.
type tags struct {
	insert         int
	update, delete []int
}

// count adds what a merge's statements did, if they got so far.
func (m *merge) count(res *sink.Counts, r []result, at tags, rows int) bool {
	affected := func(statements ...int) (n int64) {
		for _, i := range statements {
			if i >= 0 {
				n += r[i].tag.RowsAffected()
			}
		}
		return n
	}
	if len(r) <= slices.Max(slices.Concat([]int{at.insert}, at.update, at.delete)) || rows == 0 && !m.sweeps {
		return false
	}
	inserted, updated, deleted := affected(at.insert), affected(at.update...), affected(at.delete...)
	res.Inserted += inserted
	res.Updated += updated
	res.Deleted += deleted
	if m.sweeps { // the rows that are deleted are none of those
		deleted = 0
	}
	res.Unchanged += int64(rows) - inserted - updated - deleted
	return true
}

// direct reports whether the rows can be copied into the table itself, for they
// are all new, it seems: that takes a third of the time. Where one is not, the
// database refuses it, and the flush begins again.
func (m *merge) direct() bool {
	return !m.deletes && m.owner == nil && len(m.refs) == 0 && !m.table.policed && !slices.ContainsFunc(m.used, func(u staged) bool { return m.table.Columns[u.at].Default != "" })
}

// copyAll adds what copies rows into the table that are not in it.
func (m *merge) copyAll(s *script, rows []*fold.Row) tags {
	into := make([]string, len(m.used))
	for i, u := range m.used {
		into[i] = ident(m.table.Columns[u.at].Name)
	}
	for _, c := range m.stamps {
		into = append(into, ident(m.table.Columns[c.at].Name))
	}
	n := s.add("COPY %s (%s) FROM STDIN", m.table.ident, strings.Join(into, ", "))
	s.copies = append(s.copies, m.encode(rows))
	return tags{insert: n}
}

// stage adds what copies rows into the staging table.
func (m *merge) stage(s *script, rows []*fold.Row) {
	if len(rows) > 0 {
		s.add("%s", m.copySQL())
		s.copies = append(s.copies, m.encode(rows))
	}
}

// statements adds what brings the table up to date. New rows come first, in the
// order of their keys: who waits there for another writer's row holds no lock on
// a row that is there. Then the rows that are to change are locked in that order.
// So writers that all do this cannot wait for each other in a circle.
//
// Rows are locked and changed in slices of that many: where the table is larger than
// the memory, the pages that were read to lock a row are gone when all are locked.
//
// alone says that no other table is written: else rows are only locked that are to be
// deleted, which happens when all tables have got their rows.
func (m *merge) statements(s *script, rows []*fold.Row, slice int, alone bool) (t tags) {
	t.insert = -1
	if len(rows) == 0 {
		return t // nothing is newer than what is there
	}
	m.findOwners(s)
	m.findReferred(s)
	set, differs := m.assignments()
	// A row that was just inserted may be another than the staged one: then it is
	// marked, and left alone.
	marked := set != "" && (m.table.triggers || (m.replaces || m.resets) && m.defaults())
	t.insert = m.insert(s, marked)
	var touched []string
	if set != "" {
		lives := m.lives()
		if marked {
			lives += "s.op IS DISTINCT FROM 'i' AND "
		}
		touched = append(touched, lives+"(t.ctid IS NULL OR "+differs+")")
		// A row that was just locked shows it, unless others share the lock: that
		// saves comparing it a second time. Where a table has rules, the check of a
		// foreign key may have locked it too.
		if !m.table.HasConstraints {
			differs = "(t.xmax = pg_current_xact_id()::xid OR " + differs + ")"
		}
		differs = lives + m.asFound(hasState) + differs
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
			t.update = append(t.update, s.add("UPDATE %s t SET %s FROM %s s WHERE %s%s AND %s", m.table.ident, set, m.t.stageName, in, m.on(), differs))
		}
		if m.deletes && alone {
			t.delete = append(t.delete, m.delete(s, in))
		}
	}
	return t
}

// hasState is the condition that a staged row has a state that is kept beside it.
const hasState = "s.state IS NOT NULL"

// lives is the condition, with AND behind it, that a staged row is one that the table is to have.
func (m *merge) lives() (sql string) {
	if m.deletes {
		sql = "s.op IS DISTINCT FROM 'd' AND "
	}
	if m.sweeps {
		sql += "s.op IS DISTINCT FROM 's' AND "
	}
	return sql
}

// delete adds what deletes the rows that staged ones delete, those of a part alone where in
// is a condition.
func (m *merge) delete(s *script, in string) int {
	return s.add("DELETE FROM %s t USING %s s WHERE %s%s%s AND s.op = 'd'", m.table.ident, m.t.stageName, in, m.asFound(hasState), m.on())
}

const goneWord = "weir: rows are gone"

// lock adds what locks the table's rows that staged ones touch, and demands that it lock
// all of them. A row that another session deletes or gives another key, after the INSERT
// saw it or while its lock is waited for, cannot be locked, even if that session
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
	// A table that the flush makes has no schema before its name, which may be any but weir's own.
	asFound := m.asFound("s.kept")
	if asFound != "" {
		key = append(key, "s.found", hasState+" AS kept")
	}
	s.add("WITH weir_touched AS MATERIALIZED (SELECT s.n, %s FROM %s s LEFT JOIN %s t ON %s WHERE %s)"+
		" SELECT set_config('weir.touched', %s, true) FROM (SELECT count(*) n FROM (SELECT FROM weir_touched s JOIN %[3]s t ON %[8]s%[4]s ORDER BY s.n FOR %[7]s OF t) l) x, (SELECT count(*) n FROM weir_touched) y",
		strings.Join(key, ", "), m.t.stageName, m.table.ident, m.on(), touched, count, strength, asFound)
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
	for _, c := range m.stamps {
		into, from = append(into, ident(m.table.Columns[c.at].Name)), append(from, m.now())
	}
	key := make([]string, len(m.table.Key))
	for i, k := range m.table.Key {
		key[i] = ident(m.table.Columns[k].Name)
	}
	keys := strings.Join(key, ", ")
	insert := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s s WHERE %sNOT EXISTS (SELECT FROM %s t WHERE %s) ORDER BY s.n",
		m.table.ident, strings.Join(into, ", "), strings.Join(from, ", "), m.t.stageName, m.lives(), m.table.ident, m.on())
	passing := insert + " ON CONFLICT (" + keys + ") DO NOTHING"
	if marked {
		passing = fmt.Sprintf("WITH t AS (%s RETURNING %s) UPDATE %s s SET op = 'i' FROM t WHERE %s", passing, keys, m.t.stageName, m.on())
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

// now is the literal of the flush's time.
func (m *merge) now() string { return quote(m.b.Time.UTC().Format(stampFormat)) }

// assignments returns the SET list of the UPDATE, and the condition that it
// changes a row: a stamp alone does not. Both are empty where no row of the batch
// names a column beside its key.
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
			if !c.Key && !c.Generated && !slices.ContainsFunc(m.used, func(u staged) bool { return u.at == at }) &&
				!slices.ContainsFunc(m.stamps, func(s stamped) bool { return s.at == at }) {
				value := m.unnamed(&staged{at: at, null: -1, initial: -1})
				add(at, value, distinct(m.table.cols[at].image, value, "t."+ident(c.Name)))
			}
		}
		if m.defaults() {
			conditions = append(conditions[:0], "s.op = 'r'", "("+strings.Join(conditions, " OR ")+")")
		}
	}
	if len(sets) == 0 {
		return "", ""
	}
	for _, c := range m.stamps {
		name := ident(m.table.Columns[c.at].Name)
		switch {
		case c.when == schema.UpdateStamp:
			sets = append(sets, name+" = "+m.now())
		case m.replaces: // the row is another one from here on
			sets = append(sets, fmt.Sprintf("%s = CASE WHEN s.op = 'r' THEN %s ELSE t.%[1]s END", name, m.now()))
		}
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
