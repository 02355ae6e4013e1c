package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/schema"
)

// An upsert brings a table up to date with its staged rows.
type upsert struct {
	*shape
	only bool // no other table is written: else rows are deleted when all tables have got theirs
	// guarded says that other writers of the rows' versions run at the same time, so that a row is written only if it
	// is the one that the staged row was resolved against.
	guarded bool
	again   bool // rows were gone before, and the flush is sent again
}

// A tally is what the rows are that a statement affects.
type tally int

const (
	noTally tally = iota
	inserted
	updated
	deleted
	removed // deleted, though no message deletes them: they are no longer in a set, or their parent is gone
	byMerge // inserted, updated or deleted by a MERGE: those around it tell how many of each
	countsBefore
	countsAfter
)

// statements write the rows in a way, in the order of their keys: so two writers cannot deadlock.
func (u *upsert) statements(w way) []statement {
	if w == separate {
		return append(u.resolutions(), u.separately()...)
	}
	return append(u.resolutions(), u.merged()...)
}

// removes reports whether the MERGE deletes rows.
func (u *upsert) removes() bool { return u.acts.deletes > 0 && u.only && !u.guarded }

// merged are the statements around a MERGE. Rows that are to be deleted later are locked before.
func (u *upsert) merged() (all []statement) {
	set, differs := u.assignments()
	later := u.acts.deletes > 0 && !u.removes()
	if later {
		touched := "s.op = 'd'"
		if set != nil {
			touched += "\n    OR " + and(u.lives(), differs)
		}
		all = u.lock(exists + " AND (" + touched + ")")
	}
	count := "SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))\nFROM (" + u.table.relations() + ") r (id)"
	all = append(all, statement{sql: count, tally: countsBefore}, statement{sql: u.mergeSQL(set, differs), tally: byMerge}, statement{sql: count, tally: countsAfter})
	if u.guarded {
		// The MERGE itself could not say so: whatever it raised, a value in a trigger or a domain could raise too.
		all = append(all, demand(errRaced, "coalesce(current_setting('weir.raced', true), '') = ''"))
	}
	if later && u.only {
		all = append(all, u.delete())
	}
	return all
}

// mergeSQL is the MERGE of staged rows. It joins them once, and writes as it goes: no row is read
// twice, however large the table. A row that another session deletes meanwhile, or gives another key,
// is inserted; a key that another one inserts is an error, after which the flush is sent again. A
// staging table that was used before may have a short row on an earlier page, so the rows are sorted.
func (u *upsert) mergeSQL(set []assignment, differs string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MERGE INTO %s t\nUSING %s s ON %s", u.table.ident, u.sorted("*"), u.on())
	if u.removes() {
		b.WriteString("\nWHEN MATCHED AND s.op = 'd' THEN DELETE")
	}
	into, values := u.inserted()
	if u.guarded { // no condition of a MERGE may ask for xmin; what it writes may
		if set != nil {
			set[0].value = orRaced(u.asFound(hasState), set[0].value)
		}
		values[0] = orRaced(hasState+" OR s.found IS NULL", values[0])
	}
	if set != nil {
		fmt.Fprintf(&b, "\n%s\n  THEN UPDATE SET\n    %s", and("WHEN MATCHED", u.lives(), differs), u.setList(set))
	}
	fmt.Fprintf(&b, "\n%s\n  THEN INSERT (%s)\n    VALUES (%s)", and("WHEN NOT MATCHED", u.lives()), strings.Join(into, ", "), strings.Join(values, ", "))
	return b.String()
}

// sorted are the staged rows, some of whose columns are asked for, in the order of their keys.
func (u *upsert) sorted(columns string) string {
	return "(SELECT " + columns + " FROM " + u.stage + " ORDER BY n)"
}

// orRaced is a value of a column, and notes if a condition does not hold: see [upsert.merged].
func orRaced(holds, value string) string {
	return fmt.Sprintf("CASE WHEN CASE WHEN %s THEN true ELSE set_config('weir.raced', 'on', true) = 'on' END THEN %s END", holds, value)
}

// asFound is the condition that a row t of the table is the one that the staged row was resolved against, or one that
// the flush has written; unless the rows are guarded it is none.
func (u *upsert) asFound(sure string) string {
	if !u.guarded {
		return ""
	}
	return "(" + sure + " OR t.xmin = s.found OR t.xmin = pg_current_xact_id()::xid)"
}

// hasState is the condition that a staged row has a state that is kept next to it.
const hasState = "s.state IS NOT NULL"

// relations is a query for the OIDs of the table and of those that have rows of it.
func (t *relation) relations() string {
	id := "SELECT " + quote(t.ident) + "::regclass::oid"
	if !t.below {
		return id
	}
	return "WITH RECURSIVE below (id) AS (" + id + " UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = id) SELECT id FROM below"
}

// lives is the condition that a staged row is one that the table is to have.
func (s *shape) lives() string {
	var all []string
	if s.acts.deletes > 0 {
		all = append(all, "s.op IS DISTINCT FROM 'd'")
	}
	if s.acts.sweeps > 0 {
		all = append(all, "s.op IS DISTINCT FROM 's'")
	}
	return and(all...)
}

// on is the condition that a staged row and one of the table have the same key.
func (s *shape) on() string {
	parts := make([]string, len(s.table.Key))
	for i, k := range s.table.Key {
		parts[i] = fmt.Sprintf("%s = s.c%d", s.table.compared(k), k)
	}
	return and(parts...)
}

// absent is the condition that a staged row does not name a column whose staged value is NULL.
func (c *staged) absent() string {
	if c.null < 0 {
		return ""
	}
	return fmt.Sprintf("get_bit(s.marks, %d) IS DISTINCT FROM 1", c.null)
}

// begins is the condition that a column of a staged row gets its default, or another one holds.
func (c *staged) begins(other string) string {
	if c.initial < 0 {
		return other
	}
	return fmt.Sprintf("(%s OR get_bit(s.marks, %d) = 1)", other, c.initial)
}

// initial is the expression of a column's default.
func (s *shape) initial(at int) string { return cmp.Or(s.table.Columns[at].Default, "NULL") }

// inserted are the columns of a row that is inserted, and their values.
func (s *shape) inserted() (into, values []string) {
	for i := range s.columns {
		c := &s.columns[i]
		into = append(into, ident(s.table.Columns[c.at].Name))
		v := s.insertValue(c)
		if s.table.Columns[c.at].Default != "" {
			v = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", c.begins(and(c.value()+isNull, c.absent())), s.initial(c.at), v)
		}
		values = append(values, v)
	}
	for _, c := range s.stamps {
		into, values = append(into, ident(s.table.Columns[c.at].Name)), append(values, s.now)
	}
	return into, values
}

// An assignment gives a column of a row that exists a value.
type assignment struct {
	at    int // in the table
	value string
}

// setList is the SET list of some.
func (s *shape) setList(set []assignment) string {
	all := make([]string, len(set))
	for i, a := range set {
		all[i] = ident(s.table.Columns[a.at].Name) + " = " + a.value
	}
	return strings.Join(all, ",\n    ")
}

// assignments returns what an update of a row assigns, and the condition that it
// changes the row: a stamp alone does not. Both are empty if no row of the batch
// names a column besides its key.
func (s *shape) assignments() (set []assignment, differs string) {
	var conditions []string
	add := func(at int, value, differs string) {
		set = append(set, assignment{at, value})
		conditions = append(conditions, differs)
	}
	for i := range s.columns {
		c := &s.columns[i]
		column, image := &s.table.Columns[c.at], s.table.cols[c.at].image
		was, named := "t."+ident(column.Name), c.value()+notNull
		is := s.mergedValue(c, s.mergeBase(c))
		switch {
		case column.Key:
			if s.acts.replaces && image != "%s" { // equal keys may be spelled otherwise
				add(c.at, "CASE WHEN s.op = 'r' THEN "+is+" ELSE "+was+" END", "s.op = 'r' AND "+distinct(image, is, was))
			}
		case c.merge == merge.First && !s.acts.replaces:
			add(c.at, is, was+isNull+" AND "+named)
		case c.null < 0 && c.initial < 0 && !s.acts.replaces:
			value := is
			if c.merge != merge.Min && c.merge != merge.Max { // which ignore NULL
				value = "coalesce(" + is + ", " + was + ")"
			}
			add(c.at, value, named+" AND "+distinct(image, is, was))
		default:
			value := fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", and(c.value()+isNull, c.absent()), s.unnamed(c), is)
			add(c.at, value, distinct(image, value, was))
		}
	}
	if s.acts.replaces {
		for at := range s.table.Columns {
			c := &s.table.Columns[at]
			if !c.Key && !c.Generated && !slices.ContainsFunc(s.columns, func(c staged) bool { return c.at == at }) &&
				!slices.ContainsFunc(s.stamps, func(c stamped) bool { return c.at == at }) {
				value := s.unnamed(&staged{at: at, null: -1, initial: -1})
				add(at, value, distinct(s.table.cols[at].image, value, "t."+ident(c.Name)))
			}
		}
		if s.defaults() {
			conditions = append([]string{"s.op = 'r'"}, conditions...)
		}
	}
	if set == nil {
		return nil, ""
	}
	for _, c := range s.stamps {
		switch {
		case c.when == schema.UpdateStamp:
			set = append(set, assignment{c.at, s.now})
		case s.acts.replaces: // the row is another one from here on
			set = append(set, assignment{c.at, fmt.Sprintf("CASE WHEN s.op = 'r' THEN %s ELSE t.%s END", s.now, ident(s.table.Columns[c.at].Name))})
		}
	}
	if len(conditions) == 1 {
		return set, conditions[0]
	}
	return set, "(" + strings.Join(conditions, "\n    OR ") + ")"
}

// unnamed is the value of a column that a row does not name: what the table has,
// or the default if the row or the column starts from nothing.
func (s *shape) unnamed(c *staged) string {
	was := "t." + ident(s.table.Columns[c.at].Name)
	if !s.acts.replaces && c.initial < 0 {
		return was
	}
	return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", c.begins("s.op = 'r'"), s.initial(c.at), was)
}

// Whether a value is NULL. IS NULL would ask the fields of a composite value.
const isNull, notNull = " IS NOT DISTINCT FROM NULL", " IS DISTINCT FROM NULL"

func distinct(image, a, b string) string {
	return fmt.Sprintf(image, a) + " IS DISTINCT FROM " + fmt.Sprintf(image, b)
}

// and joins conditions, without those that are empty.
func and(conditions ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(conditions), func(c string) bool { return c == "" }), " AND ")
}

// separately are the statements that take the place of a MERGE. New rows come first, in the order of their keys: who waits there for
// another writer's row holds no lock on a row that exists. Then the rows that are to change are locked
// in that order.
func (u *upsert) separately() (all []statement) {
	if u.table.Appends() {
		return []statement{u.append()}
	}
	set, differs := u.assignments()
	// Inserted rows are marked, so they are not updated as well: a trigger or default may have changed the row, and a sum
	// must not be added twice.
	marked := set != nil && (u.merges() || u.table.triggers || (u.acts.replaces || u.acts.resets) && u.defaults())
	all = u.insert(marked)
	lives := u.lives()
	if marked {
		lives = and(lives, "s.op IS DISTINCT FROM 'i'")
	}
	var touched []string
	if set != nil {
		touched = append(touched, and(lives, "(t.ctid IS NULL OR "+differs+")"))
	}
	if u.acts.deletes > 0 {
		touched = append(touched, "s.op = 'd' AND "+exists)
	}
	if len(touched) == 0 {
		return all
	}
	all = append(all, u.lock("("+strings.Join(touched, " OR ")+")")...)
	if set != nil {
		// Unless the lock found a row, the rest is not even looked at.
		all = append(all, statement{tally: updated, sql: fmt.Sprintf("UPDATE %s t\n  SET %s\nFROM %s s\nWHERE %s", u.table.ident, u.setList(set), u.stage,
			and("current_setting('weir.touched') <> '0'", u.on(), lives, u.asFound(hasState), differs))})
	}
	if u.acts.deletes > 0 && u.only {
		all = append(all, u.delete())
	}
	return all
}

// insert inserts the rows that are missing; they are counted by their marks if they are to be marked.
func (u *upsert) insert(marked bool) []statement {
	into, values := u.inserted()
	key := make([]string, len(u.table.Key))
	for i, k := range u.table.Key {
		key[i] = ident(u.table.Columns[k].Name)
	}
	keys := strings.Join(key, ", ")
	insert := fmt.Sprintf("INSERT INTO %s (%s)\nSELECT %s\nFROM %s s\nWHERE %s\nORDER BY s.n", u.table.ident, strings.Join(into, ", "), strings.Join(values, ", "), u.stage,
		and(u.lives(), fmt.Sprintf("NOT EXISTS (SELECT FROM %s t WHERE %s)", u.table.ident, u.on())))
	passing := insert + "\nON CONFLICT (" + keys + ") DO NOTHING"
	mark := func(insert string) string {
		return fmt.Sprintf("WITH t AS (%s\nRETURNING %s)\nUPDATE %s s SET op = 'i' FROM t WHERE %s", insert, keys, u.stage, u.on())
	}
	if marked {
		passing = mark(passing)
	}
	if u.merges() { // the row that conflicted above may be gone by now
		insert = mark(insert)
	}
	all := []statement{{sql: passing, tally: inserted}}
	if u.table.hides {
		// A row that others made in the meantime is seen by now. What is not, a policy
		// hides: then this is refused.
		all = append(all, statement{sql: insert})
	}
	return all
}

// append inserts rows without a key, in the order of their messages. Rows may name no existing column: a column that has
// had only nulls is not created yet.
func (u *upsert) append() statement {
	into, values := u.inserted()
	columns := ""
	if len(into) > 0 {
		columns = " (" + strings.Join(into, ", ") + ")"
	}
	return statement{tally: inserted, sql: fmt.Sprintf("INSERT INTO %s%s\nSELECT %s\nFROM %s s\nORDER BY s.n", u.table.ident, columns, strings.Join(values, ", "), u.stage)}
}

// delete deletes the rows that staged ones delete.
func (u *upsert) delete() statement {
	return statement{tally: deleted, sql: fmt.Sprintf("DELETE FROM %s t\nUSING %s s\nWHERE %s", u.table.ident, u.stage, and(u.asFound(hasState), u.on(), "s.op = 'd'"))}
}

// exists is the condition that the table has a row t, in a form that leaves a LEFT JOIN one: then the planner looks up each staged
// row in the table, and not each of the table's among those staged, whatever it takes the table's size for.
const exists = "(t.ctid IS NULL) IS FALSE"

// lock locks the table's rows that staged ones touch, and demands that it lock
// all of them. A row that another session deletes or gives another key, after the INSERT
// saw it or while its lock is waited for, cannot be locked, even if that session
// makes a new one of its key: then the flush is sent again. If a trigger or a policy
// may keep rows away for good, it is sent again once.
func (u *upsert) lock(touched string) []statement {
	strength := "NO KEY UPDATE"
	if u.acts.deletes > 0 {
		strength = "UPDATE"
	}
	key := make([]string, len(u.table.Key))
	for i, k := range u.table.Key {
		key[i] = fmt.Sprintf("s.c%d", k)
	}
	if u.guarded {
		key = append(key, "s.found", hasState+" AS sure")
	}
	// A table that the flush makes has no schema before its name, which may be any but weir's own.
	all := []statement{{sql: fmt.Sprintf(`WITH weir_touched AS MATERIALIZED (
  SELECT s.n, %s
  FROM %s s LEFT JOIN %s t ON %s
  WHERE %s)
SELECT set_config('weir.touched', x.n::text, true), set_config('weir.gone', (x.n < y.n)::text, true)
FROM (SELECT count(*) n FROM (SELECT * FROM weir_touched ORDER BY n) s, LATERAL (SELECT FROM %[3]s t WHERE %[6]s FOR %[7]s OF t) l) x,
  (SELECT count(*) n FROM weir_touched) y`,
		strings.Join(key, ", "), u.stage, u.table.ident, u.on(), touched, and(u.asFound("s.sure"), u.on()), strength)}}
	if !u.again || !(u.table.triggers || u.table.policed) {
		all = append(all, demand(errGone, "current_setting('weir.gone') = 'false'"))
	}
	return all
}
