package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/schema"
)

// An upsert brings a table up to date with its staged rows.
type upsert struct {
	*shape
	alone bool // no other table is written: else rows are deleted when all tables have got theirs
	// guarded tells that other writers of the rows' versions run at the same time, so that a row is written only if it
	// is the one that the staged row was resolved against.
	guarded bool
	again   bool // rows were gone before, and the flush is sent again
	inOrder bool // the staging table has the rows in the order of their keys
}

// A tally is what the rows are that a statement affects.
type tally int

const (
	noTally tally = iota
	inserted
	updated
	deleted
	countsBefore // these two tell what the MERGEs between them do
	countsAfter
	tallies
)

// A statement is one of those that write a table.
type statement struct {
	sql   string
	tally tally
	// What its errors of some SQLSTATEs mean; nil: that is the server's.
	err   error
	codes []string
}

// demand is a statement that ends the transaction with err unless a condition holds. No value of a message, type, trigger or
// function of the user's takes part in the condition, so that nothing else can make this statement divide by zero.
func demand(err error, format string, args ...any) statement {
	return statement{sql: fmt.Sprintf("SELECT 1 / ("+format+")::integer", args...), err: err, codes: []string{divisionByZero}}
}

// statements write the rows in a way, in the order of their keys: so two writers cannot deadlock.
func (u *upsert) statements(w way) []statement {
	if w == separate {
		return append(u.resolutions(), u.separately()...)
	}
	return append(u.resolutions(), u.merged()...)
}

// removes reports whether the MERGE deletes rows.
func (u *upsert) removes() bool { return u.acts.deletes > 0 && u.alone && !u.guarded }

// merged are the statements around a MERGE. Rows that are to be deleted later are locked before.
func (u *upsert) merged() (all []statement) {
	set, differs := u.assignments()
	later := u.acts.deletes > 0 && !u.removes()
	if later {
		touched := "s.op = 'd'"
		if set != nil {
			touched += "\n    OR " + and(u.lives(), differs)
		}
		all = u.lock("t.ctid IS NOT NULL AND (" + touched + ")")
	}
	relations := u.table.relations()
	count := "SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))\nFROM (" + relations + ") r (id)"
	all = append(all, statement{sql: avoidScans(relations)}, statement{sql: count, tally: countsBefore},
		statement{sql: u.mergeSQL(set, differs)}, statement{sql: count, tally: countsAfter})
	if u.guarded {
		// The MERGE itself could not say so: whatever it raised, a value in a trigger or a domain could raise too.
		all = append(all, demand(errRaced, "coalesce(current_setting('weir.raced', true), '') = ''"))
	}
	if later && u.alone {
		all = append(all, u.delete())
	}
	return all
}

// mergeSQL is the MERGE of staged rows. It joins them once, and writes as it goes: no row is read
// twice, however large the table. A row that another session deletes meanwhile, or gives another key,
// is inserted; a key that another one inserts is an error, after which the flush is sent again. If the
// rows are not in order they are sorted, at the cost of 0.4 of 8 µs a row of 38 columns (BenchmarkFlush_OfCopy): of a source
// that is not a plain table a MERGE makes a whole-row value for each row.
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
	if u.inOrder {
		return u.stage
	}
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
		v := fmt.Sprintf("s.c%d", c.at)
		if s.table.Columns[c.at].Default != "" {
			v = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", c.begins(and(v+isNull, c.absent())), s.initial(c.at), v)
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
		was, is := "t."+ident(column.Name), fmt.Sprintf("s.c%d", c.at)
		switch {
		case column.Key:
			if s.acts.replaces && image != "%s" { // equal keys may be spelled otherwise
				add(c.at, "CASE WHEN s.op = 'r' THEN "+is+" ELSE "+was+" END", "s.op = 'r' AND "+distinct(image, is, was))
			}
		case s.fillOnly:
			add(c.at, "coalesce("+was+", "+is+")", was+isNull+" AND "+is+notNull)
		case c.null < 0 && c.initial < 0 && !s.acts.replaces:
			add(c.at, "coalesce("+is+", "+was+")", is+notNull+" AND "+distinct(image, is, was))
		default:
			value := fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", and(is+isNull, c.absent()), s.unnamed(c), is)
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
