package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/merge"
	"github.com/weirsync/weir/internal/schema"
)

// An upsert applies staged rows to their table.
type upsert struct {
	*shape
	only bool // no other table is written; otherwise deletes wait until all tables have their rows
	// guarded says that other writers of the rows' versions run at the same time, so a row is written only if it is
	// unchanged since the staged row was resolved against it.
	guarded bool
	again   bool // rows had disappeared before, and the flush is resent
}

// A tally classifies the rows that a statement affects.
type tally int

const (
	noTally tally = iota
	inserted
	updated
	deleted
	removed // deleted, but not by a message: no longer in a set, or the parent is gone
	byMerge // inserted, updated or deleted by a MERGE; the statements around it tell how many of each
	countsBefore
	countsAfter
)

// statements returns the statements that write the rows. They write in key order, so two writers cannot deadlock.
func (u *upsert) statements() []statement {
	return append(u.resolutions(), u.merged()...)
}

// removes reports whether the MERGE deletes rows.
func (u *upsert) removes() bool { return u.acts.deletes > 0 && u.only && !u.guarded }

// merged returns a MERGE with the statements around it. It first locks rows that are to be deleted later.
func (u *upsert) merged() (all []statement) {
	set, differs := u.assignments()
	later := u.acts.deletes > 0 && !u.removes()
	if later {
		touched := "s.op = 'd'"
		if set != nil {
			touched += "\n    OR " + and(u.lives(), differs)
		}
		all = append(all, u.lock(exists+" AND ("+touched+")"))
	}
	count := "SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))\nFROM (" + u.table.relations() + ") r (id)"
	all = append(all, statement{sql: count, tally: countsBefore}, statement{sql: u.mergeSQL(set, differs), tally: byMerge}, statement{sql: count, tally: countsAfter})
	if u.guarded {
		// The MERGE itself cannot report it: a value in a trigger or a domain could raise any error, too.
		all = append(all, demand(errRaced, "coalesce(current_setting('weir.raced', true), '') = ''"))
	}
	if later && u.only {
		all = append(all, u.delete())
	}
	return all
}

// mergeSQL returns the MERGE of staged rows. It joins them once, and writes as it reads: no row is read twice, however
// large the table. A row that another session deletes meanwhile, or gives another key, is inserted. A key that another
// session inserts is an error; the flush is then resent. In a reused staging table a short row may be on an earlier
// page, so the rows are sorted.
func (u *upsert) mergeSQL(set []assignment, differs string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "MERGE INTO %s t\nUSING %s s ON %s", u.table.ident, u.sorted("*"), u.on())
	if u.removes() {
		b.WriteString("\nWHEN MATCHED AND s.op = 'd' THEN DELETE")
	}
	into, values := u.inserted()
	if u.guarded { // a MERGE's conditions cannot use xmin, but the values that it writes can
		if set != nil {
			set[0].value = orRaced(u.asFound(hasState), set[0].value)
		}
		values[0] = orRaced(hasState+" OR s.found IS NULL", values[0])
	}
	if set != nil {
		fmt.Fprintf(&b, "\n%s\n  THEN UPDATE SET\n    %s", and("WHEN MATCHED", u.lives(), differs), u.setList(set))
	}
	row := "DEFAULT VALUES" // without a key, and with columns that have had only nulls, so they are not created yet
	if len(into) > 0 {
		row = fmt.Sprintf("(%s)\n    VALUES (%s)", strings.Join(into, ", "), strings.Join(values, ", "))
	}
	fmt.Fprintf(&b, "\n%s\n  THEN INSERT %s", and("WHEN NOT MATCHED", u.lives()), row)
	return b.String()
}

// sorted returns columns of the staged rows, in key order.
func (u *upsert) sorted(columns string) string {
	return "(SELECT " + columns + " FROM " + u.stage + " ORDER BY n)"
}

// orRaced returns a column's value, and records if a condition does not hold: see [upsert.merged].
func orRaced(holds, value string) string {
	return fmt.Sprintf("CASE WHEN CASE WHEN %s THEN true ELSE set_config('weir.raced', 'on', true) = 'on' END THEN %s END", holds, value)
}

// asFound returns the condition that a row t of the table is unchanged since the staged row was resolved against it, or
// was written by this flush; "" unless the rows are guarded.
func (u *upsert) asFound(sure string) string {
	if !u.guarded {
		return ""
	}
	return "(" + sure + " OR t.xmin = s.found OR t.xmin = pg_current_xact_id()::xid)"
}

// hasState is the condition that a staged row has a state to store.
const hasState = "s.state IS NOT NULL"

// relations returns a query for the OIDs of the table and of those that have rows of it.
func (t *relation) relations() string {
	id := "SELECT " + quote(t.ident) + "::regclass::oid"
	if !t.hasSubtables {
		return id
	}
	return "WITH RECURSIVE below (id) AS (" + id + " UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = id) SELECT id FROM below"
}

// lives returns the condition that a staged row is to be in the table.
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

// on returns the condition that a staged row and one of the table have the same key. Without a key all rows are new.
func (s *shape) on() string {
	if s.table.Appends() {
		return "false"
	}
	parts := make([]string, len(s.table.Key))
	for i, k := range s.table.Key {
		parts[i] = fmt.Sprintf("%s = s.c%d", s.table.compared(k), k)
	}
	return and(parts...)
}

// absent returns the condition that a staged row does not have a column, if its staged value is NULL.
func (c *staged) absent() string {
	if c.null < 0 {
		return ""
	}
	return fmt.Sprintf("get_bit(s.marks, %d) IS DISTINCT FROM 1", c.null)
}

// begins returns the condition that a staged row resets a column to its default, or other holds.
func (c *staged) begins(other string) string {
	if c.initial < 0 {
		return other
	}
	return fmt.Sprintf("(%s OR get_bit(s.marks, %d) = 1)", other, c.initial)
}

// initial returns the expression of a column's default.
func (s *shape) initial(at int) string { return cmp.Or(s.table.Columns[at].Default, "NULL") }

// inserted returns the columns of an inserted row, and their values.
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

// An assignment sets a column of an existing row.
type assignment struct {
	at    int // in the table
	value string
}

// setList returns a SET list.
func (s *shape) setList(set []assignment) string {
	all := make([]string, len(set))
	for i, a := range set {
		all[i] = ident(s.table.Columns[a.at].Name) + " = " + a.value
	}
	return strings.Join(all, ",\n    ")
}

// assignments returns what an update of a row assigns, and the condition that it changes the row: a stamp alone does
// not. Both are empty if no row of the batch has a column besides its key, and without a key.
func (s *shape) assignments() (set []assignment, differs string) {
	if s.table.Appends() {
		return nil, ""
	}
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
			if s.acts.replaces && image != "%s" { // equal keys may be spelled differently
				add(c.at, "CASE WHEN s.op = 'r' THEN "+is+" ELSE "+was+" END", "s.op = 'r' AND "+distinct(image, is, was))
			}
		case c.merge == merge.First && !s.acts.replaces:
			add(c.at, is, was+isNull+" AND "+named)
		case c.null < 0 && c.initial < 0 && !s.acts.replaces:
			value := is
			if c.merge != merge.Min && c.merge != merge.Max { // MIN and MAX ignore NULL
				value = "coalesce(" + is + ", " + was + ")"
			}
			add(c.at, value, named+" AND "+distinct(image, is, was))
		default:
			value := fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", and(c.value()+isNull, c.absent()), s.absentValue(c), is)
			add(c.at, value, distinct(image, value, was))
		}
	}
	if s.acts.replaces {
		for at := range s.table.Columns {
			c := &s.table.Columns[at]
			if !c.Key && !c.Generated && !slices.ContainsFunc(s.columns, func(c staged) bool { return c.at == at }) &&
				!slices.ContainsFunc(s.stamps, func(c stamped) bool { return c.at == at }) {
				value := s.absentValue(&staged{at: at, null: -1, initial: -1})
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
		case s.acts.replaces: // it is a different row from here on
			set = append(set, assignment{c.at, fmt.Sprintf("CASE WHEN s.op = 'r' THEN %s ELSE t.%s END", s.now, ident(s.table.Columns[c.at].Name))})
		}
	}
	if len(conditions) == 1 {
		return set, conditions[0]
	}
	return set, "(" + strings.Join(conditions, "\n    OR ") + ")"
}

// absentValue returns the value of a column that a row does not have: the table's, or the default if the row or the
// column starts from nothing.
func (s *shape) absentValue(c *staged) string {
	was := "t." + ident(s.table.Columns[c.at].Name)
	if !s.acts.replaces && c.initial < 0 {
		return was
	}
	return fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", c.begins("s.op = 'r'"), s.initial(c.at), was)
}

// Whether a value is NULL. IS NULL would test the fields of a composite value.
const isNull, notNull = " IS NOT DISTINCT FROM NULL", " IS DISTINCT FROM NULL"

func distinct(image, a, b string) string {
	return fmt.Sprintf(image, a) + " IS DISTINCT FROM " + fmt.Sprintf(image, b)
}

// and joins conditions, skipping empty ones.
func and(conditions ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(conditions), func(c string) bool { return c == "" }), " AND ")
}

// delete deletes the rows that staged rows delete.
func (u *upsert) delete() statement {
	return statement{tally: deleted, sql: fmt.Sprintf("DELETE FROM %s t\nUSING %s s\nWHERE %s", u.table.ident, u.stage, and(u.asFound(hasState), u.on(), "s.op = 'd'"))}
}

// exists is the condition that the table has a row t, in a form that does not turn a LEFT JOIN into an inner one. The
// planner then looks up each staged row in the table, and not each row of the table among the staged ones, whatever
// size it assumes for the table.
const exists = "(t.ctid IS NULL) IS FALSE"

// lock locks the table's rows that staged rows touch, and checks that it could lock all of them. It cannot lock a row
// that another session deletes, or gives another key, during the wait for its lock, even if that session creates a new
// row with the key: the flush is then resent. If a trigger may keep rows away for good, it is resent once.
func (u *upsert) lock(touched string) statement {
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
	// A table that the flush creates has no schema before its name, which may be any name except weir's own.
	lock := fmt.Sprintf(`WITH weir_touched AS MATERIALIZED (
  SELECT s.n, %s
  FROM %s s LEFT JOIN %s t ON %s
  WHERE %s)
SELECT x.n = y.n
FROM (SELECT count(*) n FROM (SELECT * FROM weir_touched ORDER BY n) s, LATERAL (SELECT FROM %[3]s t WHERE %[6]s FOR %[7]s OF t) l) x,
  (SELECT count(*) n FROM weir_touched) y`,
		strings.Join(key, ", "), u.stage, u.table.ident, u.on(), touched, and(u.asFound("s.sure"), u.on()), strength)
	if u.again && u.table.triggers {
		return statement{sql: lock}
	}
	return demand(errGone, "(%s)", lock)
}
