package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/merge"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A tally classifies the rows that a statement affects.
type tally int

const (
	noTally tally = iota
	inserted
	deleted
	removed // deleted, but not by a message: no longer in a set, or the parent is gone
	counted // inserted, updated or deleted; the statements around it tell how many of each
	countsBefore
	countsAfter
)

// statements returns the statements that write staged rows to their table. They write in key order, so two writers cannot
// deadlock.
func (p *tablePlan) statements() []statement {
	all := p.resolutions()
	count := "SELECT sum(pg_stat_get_xact_tuples_inserted(id)), sum(pg_stat_get_xact_tuples_deleted(id))\nFROM (" + p.table.relations() + ") r (id)"
	all = append(all, statement{sql: count, tally: countsBefore})
	if p.way == upserted {
		all = append(all, statement{sql: p.upsertSQL(), tally: counted})
	} else {
		for from := 0; from < len(p.fills); from += maxFills {
			all = append(all, statement{sql: p.mergeSQL(from, min(from+maxFills, len(p.fills))), tally: counted})
		}
	}
	all = append(all, statement{sql: count, tally: countsAfter})
	if p.acts.deletes > 0 && !p.removes() && p.only {
		all = append(all, p.delete())
	}
	return all
}

// upsertSQL returns the upsert of staged rows. A key that another session inserts is waited for. Unlike a MERGE, it
// proposes each row for insertion, so the table must accept a row that has only some columns, and locks rows that do
// not change.
func (p *tablePlan) upsertSQL() string {
	proposed := *p.shape
	proposed.columns = slices.Clone(p.columns)
	for i := range proposed.columns {
		c := &proposed.columns[i]
		c.value = "excluded." + ident(p.table.Columns[c.at].Name)
	}
	action := "NOTHING"
	if set, differs := proposed.assignments(""); set != nil {
		action = fmt.Sprintf("UPDATE SET\n    %s\n  WHERE %s", p.setList(set), differs)
	}
	into, values := p.inserted("")
	return fmt.Sprintf("INSERT INTO %s AS t (%s)\nSELECT %s\nFROM %s s\nORDER BY s.n\nON CONFLICT (%s) DO %s",
		p.table.ident, strings.Join(into, ", "), strings.Join(values, ", "), p.stage, sink.NameList(p.table.KeyColumns(), ident), action)
}

// removes reports whether the MERGE deletes rows.
func (p *tablePlan) removes() bool { return p.acts.deletes > 0 && p.only }

// maxFills is how many fills one MERGE writes: it has an action for each.
const maxFills = 16

// mergeSQL returns the MERGE of the staged rows whose fill is in [from, to). It joins staged rows and table once, and
// writes as it reads: no row is read twice, however large the table. A row that another session deletes meanwhile, or
// gives another key, is inserted. A key that another session inserts is an error; the flush is then resent. In a reused
// staging table a short row may be on an earlier page, so the rows are sorted.
func (p *tablePlan) mergeSQL(from, to int) string {
	var b strings.Builder
	overriding := ""
	if slices.ContainsFunc(p.table.Key, func(k int) bool { return p.table.cols[k].always }) {
		overriding = "\n    OVERRIDING SYSTEM VALUE"
	}
	where := ""
	if to-from < len(p.fills) {
		where = fmt.Sprintf(" WHERE fill BETWEEN %d AND %d", from, to-1)
	}
	fmt.Fprintf(&b, "MERGE INTO %s t\nUSING (SELECT * FROM %s%s ORDER BY n) s ON %s", p.table.ident, p.stage, where, p.on())
	if p.removes() {
		b.WriteString("\nWHEN MATCHED AND s.op = 'd' THEN DELETE")
	}
	for _, c := range p.changes(from, to) {
		fmt.Fprintf(&b, "\n%s\n  THEN UPDATE SET\n    %s", and("WHEN MATCHED", c.when), p.setList(c.set))
	}
	for n := from; n < to; n++ {
		into, values := p.inserted(p.fills[n])
		row := "DEFAULT VALUES" // without a key, and with columns that have had only nulls, so they are not created yet
		if len(into) > 0 {
			row = fmt.Sprintf("(%s)%s\n    VALUES (%s)", strings.Join(into, ", "), overriding, strings.Join(values, ", "))
		}
		fmt.Fprintf(&b, "\n%s\n  THEN INSERT %s", and("WHEN NOT MATCHED", p.lives(), p.isFill(n)), row)
	}
	return b.String()
}

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
		parts[i] = fmt.Sprintf("%s = s.c%d", s.table.column(k), k)
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

// inserted returns the columns of an inserted row, and their values. The database fills in the others.
func (s *shape) inserted(f fill) (into, values []string) {
	for i := range s.columns {
		if c := &s.columns[i]; f.has(c) {
			into, values = append(into, ident(s.table.Columns[c.at].Name)), append(values, s.insertValue(c))
		}
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

func (s *shape) setList(set []assignment) string {
	all := make([]string, len(set))
	for i, a := range set {
		all[i] = ident(s.table.Columns[a.at].Name) + " = " + a.value
	}
	return strings.Join(all, ",\n    ")
}

// A change is an update of the existing rows whose keys match and for which a further condition holds.
type change struct {
	when string
	set  []assignment
}

// useDefault is the value of an assignment that makes the database fill in the column's default.
const useDefault = "DEFAULT"

// changes returns what staged rows with the fills of some numbers change in existing rows. The first change whose
// condition holds applies to a row. Without a key no rows exist.
func (s *shape) changes(from, to int) (all []change) {
	if s.table.Appends() {
		return nil
	}
	add := func(op string, n int, differs string, set []assignment) {
		if len(set) > 0 {
			all = append(all, change{and(op, s.isFill(n), differs), set})
		}
	}
	plain := ""
	if s.acts.marked() {
		plain = "s.op IS NULL"
	}
	for n := from; n < to && s.acts.replaces; n++ {
		set, differs := s.replaced(s.fills[n])
		add("s.op = 'r'", n, differs, set)
	}
	for n := from; n < to; n++ {
		if strings.ContainsRune(string(s.fills[n]), reset) { // the default may differ each time
			set, _ := s.assignments(s.fills[n])
			add(plain, n, "", set)
		}
	}
	if i := slices.IndexFunc(all, func(c change) bool { return c.when == "" }); i >= 0 {
		return all[:i+1] // it applies to all rows
	}
	if set, differs := s.assignments(""); set != nil {
		all = append(all, change{and(plain, differs), set})
	}
	return all
}

// isFill returns the condition that a staged row has a fill, by its number.
func (s *shape) isFill(n int) string {
	if len(s.fills) == 1 {
		return ""
	}
	return fmt.Sprintf("s.fill = %d", n)
}

// differences are the conditions that a row changes.
type differences []string

func (d differences) String() string {
	if len(d) == 1 {
		return d[0]
	}
	return "(" + strings.Join(d, "\n    OR ") + ")"
}

// assignments returns what an update of a row assigns, and the condition that it changes the row: a stamp alone does
// not. Both are empty if no row of the batch has a column besides its key.
func (s *shape) assignments(f fill) (set []assignment, differs string) {
	var differences differences
	for i := range s.columns {
		c := &s.columns[i]
		column, image := &s.table.Columns[c.at], s.table.cols[c.at].image
		was, named := "t."+ident(column.Name), c.value+notNull
		is := s.mergedValue(c, s.mergeBase(c))
		value, changes := is, was+isNull+" AND "+named
		switch {
		case column.Key:
			continue
		case f != "" && c.fill >= 0 && f[c.fill] == reset:
			value = useDefault
		case c.merge == merge.First:
		case c.all && c.null < 0 && !c.merge.Computes():
			changes = distinct(image, is, was)
		case c.null < 0:
			if c.merge != merge.Min && c.merge != merge.Max { // MIN and MAX ignore NULL
				value = "coalesce(" + is + ", " + was + ")"
			}
			changes = named + " AND " + distinct(image, is, was)
		default:
			value = fmt.Sprintf("CASE WHEN %s THEN %s ELSE %s END", and(c.value+isNull, c.absent()), was, is)
			changes = distinct(image, value, was)
		}
		set, differences = append(set, assignment{c.at, value}), append(differences, changes)
	}
	if set == nil {
		return nil, ""
	}
	return s.stamped(set), differences.String()
}

// stamped adds the stamps that move with each update.
func (s *shape) stamped(set []assignment) []assignment {
	for _, c := range s.stamps {
		if c.when == schema.UpdateStamp {
			set = append(set, assignment{c.at, s.now})
		}
	}
	return set
}

// replaced returns what the update of a row assigns that starts from nothing, and the condition that it changes the
// row; "" if columns get their defaults, which may differ each time. It is a different row from here on.
func (s *shape) replaced(f fill) (set []assignment, differs string) {
	var differences differences
	defaults := false
	for at := range s.table.Columns {
		column, image := &s.table.Columns[at], s.table.cols[at].image
		was := "t." + ident(column.Name)
		i := slices.IndexFunc(s.columns, func(c staged) bool { return c.at == at })
		has := i >= 0 && f.has(&s.columns[i])
		switch {
		case column.Generated, column.Key && image == "%s": // equal keys may be spelled differently
		case slices.ContainsFunc(s.stamps, func(c stamped) bool { return c.at == at }):
			set = append(set, assignment{at, s.now})
		case has:
			value := s.insertValue(&s.columns[i])
			set, differences = append(set, assignment{at, value}), append(differences, distinct(image, value, was))
		case column.Default != "":
			set, defaults = append(set, assignment{at, useDefault}), true
		default:
			set, differences = append(set, assignment{at, "NULL"}), append(differences, was+notNull)
		}
	}
	switch {
	case defaults:
		return set, ""
	case differences == nil:
		return nil, ""
	}
	return set, differences.String()
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
func (p *tablePlan) delete() statement {
	return statement{tally: deleted, sql: fmt.Sprintf("DELETE FROM %s t\nUSING %s s\nWHERE %s", p.table.ident, p.stage, and(p.on(), "s.op = 'd'"))}
}
