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
	removals int64      // of how many staged rows
	replaces bool       // rows are replaced
	sweeps   bool       // staged rows are keys of rows above; see [fold.Explosion.Explode]
	resets   bool       // columns of rows get their default
	removes  bool       // the MERGE deletes rows
	separate bool       // several statements take the place of the MERGE
	missed   bool       // rows that were to be locked were gone in an earlier try
	plain    bool       // the COPY takes the columns of the table alone
	inOrder  bool       // the staging table has the rows in the order of the COPY
	versions *versioned // nil where the batch has none
	scratch  []byte
	// sent is called now and then with how many of the rows of the COPY were sent; nil is none.
	sent func(rows, of int)
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
	for n, r := range rows {
		b.PrefetchValues(rows[n:])
		if r.Deleted {
			m.removals++
		}
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
	m.deletes = m.removals > 0
	for _, k := range b.Table.Key {
		names[k] = names[k] || m.sweeps // which a row may be compared with that has none
	}
	add := func(at, from int) {
		i := slices.IndexFunc(m.used, func(u staged) bool { return u.at == at })
		if i < 0 {
			i = len(m.used)
			m.used = append(m.used, staged{at: at, from: from, null: -1, initial: -1, found: at != place[from]})
		}
		s := &m.used[i]
		if s.null < 0 && nulls[from] {
			s.null = m.bits
			m.bits++
		}
		if initials[from] && s.initial < 0 {
			s.initial = m.bits
			m.bits++
		}
	}
	for i, at := range place {
		if names[i] && at >= 0 && !table.Columns[at].Generated {
			add(at, i)
		}
	}
	m.owner = m.newOwnership()
	m.newReferences(names, add)
	return m
}

// tags are the numbers of a merge's statements in its script; -1: there is none.
type tags struct {
	insert, update, delete int
	before, after          int // which tell what the MERGEs between them count
}

var noTags = tags{-1, -1, -1, -1, -1}

// count adds what a merge's statements did, if they got so far.
func (m *merge) count(res *sink.Counts, r []result, at tags, rows int) bool {
	last := max(at.insert, at.update, at.delete, at.after)
	if len(r) <= last || rows == 0 && !m.sweeps {
		return false
	}
	affected := func(statement int) int64 {
		if statement < 0 {
			return 0
		}
		return r[statement].tag.RowsAffected()
	}
	did := sink.Counts{Inserted: affected(at.insert), Updated: affected(at.update), Deleted: affected(at.delete)}
	if at.after >= 0 {
		m.split(&did, r[at.before:at.after+1])
	}
	res.Inserted += did.Inserted
	res.Updated += did.Updated
	res.Deleted += did.Deleted
	if m.sweeps { // the rows that are deleted are none of those
		did.Deleted = 0
	}
	res.Unchanged += int64(rows) - did.Inserted - did.Updated - did.Deleted
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
	t := noTags
	t.insert = n
	return t
}

// stage adds what copies rows into the staging table.
func (m *merge) stage(s *script, rows []*fold.Row) {
	if len(rows) > 0 {
		s.add("%s", m.copySQL())
		s.copies = append(s.copies, m.encode(rows))
	}
}

// statements adds what brings the table up to date, in the order of the keys: so writers that all do
// this cannot wait for each other in a circle. alone says that no other table is written: else rows
// that are to be deleted are only locked, for that happens when all tables have got their rows.
func (m *merge) statements(s *script, rows []*fold.Row, alone bool) (t tags) {
	if len(rows) == 0 {
		return noTags // nothing is newer than what is there
	}
	m.findOwners(s)
	m.findReferred(s)
	if m.separate {
		return m.separately(s, alone)
	}
	set, differs := m.assignments()
	m.removes = m.deletes && alone && m.asFound(hasState) == ""
	t = noTags
	if m.deletes && !m.removes {
		touched := "s.op = 'd'"
		if set != nil {
			touched += " OR " + m.lives() + differs
		}
		m.lock(s, "t.ctid IS NOT NULL AND ("+touched+")")
	}
	s.avoidScans(m.table.relations())
	t.before = s.add("%s", m.countSQL())
	s.add("%s", m.mergeSQL(set, differs))
	t.after = s.add("%s", m.countSQL())
	m.unraced(s)
	if m.deletes && !m.removes && alone {
		t.delete = m.delete(s)
	}
	return t
}

// avoidScans adds what keeps a MERGE into one of the relations of a query from scanning it. To the planner
// a scan of one that was empty when it was last vacuumed or analyzed costs nothing: it would scan what was
// inserted so far for each staged row, or read all of it once and compare it with each.
func (s *script) avoidScans(relations string) {
	s.add("SELECT set_config('enable_seqscan', 'off', true), set_config('enable_material', 'off', true) FROM pg_class WHERE oid IN (%s) AND reltuples = 0 LIMIT 1", relations)
}

// mergeSQL is the MERGE of staged rows. It joins them once, and writes as it goes: no row is read
// twice, however large the table. A row that another session deletes meanwhile, or gives another key,
// is inserted; a key that another one inserts is an error, after which the flush is sent again. Where the
// rows are not in order they are sorted: what is no table, a MERGE makes one value of each row of, to find it
// again, which with the sort takes 0.4 of 8 µs a row of 38 columns (BenchmarkFlush_OfCopy).
func (m *merge) mergeSQL(set []assignment, differs string) string {
	return fmt.Sprintf("MERGE INTO %s t USING %s s ON %s%s", m.table.ident, m.sorted("*"), m.on(), m.whens(set, differs))
}

// whens are the clauses of a MERGE that say what becomes of a staged row.
func (m *merge) whens(set []assignment, differs string) string {
	var b strings.Builder
	if m.removes {
		b.WriteString(" WHEN MATCHED AND s.op = 'd' THEN DELETE")
	}
	into, values := m.inserted()
	if found := m.asFound(hasState); found != "" {
		// No condition of a MERGE may ask for xmin; what it writes may.
		if set != nil {
			set[0].value = m.orRaced(found+"true", set[0].value)
		}
		values[0] = m.orRaced(hasState+" OR s.found IS NULL", values[0])
	}
	if set != nil {
		fmt.Fprintf(&b, " WHEN MATCHED AND %s%s THEN UPDATE SET %s", m.lives(), differs, m.setList(set))
	}
	fmt.Fprintf(&b, " WHEN NOT MATCHED AND %strue THEN INSERT (%s) VALUES (%s)", m.lives(), strings.Join(into, ", "), strings.Join(values, ", "))
	return b.String()
}

// sorted are the staged rows, of which some columns are asked for, in the order of their keys.
func (m *merge) sorted(columns string) string {
	if m.inOrder {
		return m.t.stageName()
	}
	return "(SELECT " + columns + " FROM " + m.t.stageName() + " ORDER BY n)"
}

// orRaced is a value of a column, and notes where a condition does not hold: see [merge.unraced].
func (m *merge) orRaced(holds, value string) string {
	return fmt.Sprintf("CASE WHEN CASE WHEN %s THEN true ELSE set_config('weir.raced', 'on', true) = 'on' END THEN %s END", holds, value)
}

// unraced adds what demands that the conditions of orRaced held. The MERGE itself could not say so: whatever it raised, a value
// in a trigger or a domain could raise too.
func (m *merge) unraced(s *script) {
	if m.asFound(hasState) != "" {
		s.demand(errRaced, "coalesce(current_setting('weir.raced', true), '') = ''")
	}
}

// relations is a query for the OIDs of the table and of those that have rows of it.
func (t *relation) relations() string {
	id := "SELECT " + quote(t.ident) + "::regclass::oid"
	if !t.below {
		return id
	}
	return "WITH RECURSIVE below (id) AS (" + id + " UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = id) SELECT id FROM below"
}

// countSQL asks how many rows the session has inserted into the table and deleted: a MERGE
// tells only the sum.
func (m *merge) countSQL() string {
	return fmt.Sprintf("SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id)) FROM (%s) r (id)", m.table.relations())
}

// split adds what MERGEs did, given the answers from before them to after them. What triggers and foreign
// keys of the table write to it themselves is counted there too, but not by a MERGE.
func (m *merge) split(did *sink.Counts, r []result) {
	last := len(r) - 1
	count := func(column int) int64 { return number(r[last].rows[0][column]) - number(r[0].rows[0][column]) }
	all := int64(0)
	for _, one := range r[1:last] {
		if strings.HasPrefix(one.tag.String(), "MERGE ") {
			all += one.tag.RowsAffected()
		}
	}
	inserted, deleted := min(count(0), all), int64(0)
	if m.removes {
		deleted = min(count(1), all-inserted, m.removals)
	}
	did.Inserted += inserted
	did.Updated += all - inserted - deleted
	did.Deleted += deleted
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

// inserted are the columns of a row that is inserted, and their values.
func (m *merge) inserted() (into, from []string) {
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
	return into, from
}

// defaults reports whether the table has columns with a default, which may be
// another one each time that it is asked for.
func (m *merge) defaults() bool {
	return slices.ContainsFunc(m.table.Columns, func(c schema.Column) bool { return c.Default != "" && !c.Generated })
}

// now is the literal of the flush's time.
func (m *merge) now() string { return quote(m.b.Time.UTC().Format(stampFormat)) }

// An assignment gives a column of a row that exists a value.
type assignment struct {
	at    int // in the table
	value string
}

// setList is the SET list of some.
func (m *merge) setList(set []assignment) string {
	all := make([]string, len(set))
	for i, a := range set {
		all[i] = ident(m.table.Columns[a.at].Name) + " = " + a.value
	}
	return strings.Join(all, ", ")
}

// assignments returns what an update of a row assigns, and the condition that it
// changes the row: a stamp alone does not. Both are empty where no row of the batch
// names a column beside its key.
func (m *merge) assignments() (set []assignment, differs string) {
	var conditions []string
	add := func(at int, value, differs string) {
		set = append(set, assignment{at, value})
		conditions = append(conditions, differs)
	}
	for i := range m.used {
		u := &m.used[i]
		c := &m.table.Columns[u.at]
		was, is := "t."+ident(c.Name), fmt.Sprintf("s.c%d", u.at)
		if c.Key {
			if image := m.table.cols[u.at].image; m.replaces && image != "%s" { // equal keys may be spelled otherwise
				add(u.at, "CASE WHEN s.op = 'r' THEN "+is+" ELSE "+was+" END", "s.op = 'r' AND "+distinct(image, is, was))
			}
			continue
		}
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
	if set == nil {
		return nil, ""
	}
	for _, c := range m.stamps {
		switch {
		case c.when == schema.UpdateStamp:
			set = append(set, assignment{c.at, m.now()})
		case m.replaces: // the row is another one from here on
			set = append(set, assignment{c.at, fmt.Sprintf("CASE WHEN s.op = 'r' THEN %s ELSE t.%s END", m.now(), ident(m.table.Columns[c.at].Name))})
		}
	}
	return set, "(" + strings.Join(conditions, " OR ") + ")"
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
