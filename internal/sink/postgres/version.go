package postgres

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// versions are the versions of the rows that a flush writes to a table.
type versions struct {
	kept  []string // columns by their number in the states, as found
	names []string // columns by their number from now on
	rows  []rowVersion
}

// A rowVersion is what is staged for a row's version.
type rowVersion struct {
	state  []byte // the state to store; nil: the stored state is unchanged
	origin origin
}

// An origin identifies what a row was resolved against: the xmin of its state, or of the row itself if its state is
// unchanged; nil if there was none.
type origin []byte

func (d *DB) fullName(t *relation) string { return identOf(d.schemaOf(t.ident)) }

// dropVersions adds statements that remove a table's versions, by its full name.
func (d *DB) dropVersions(s *script, table string) {
	if d.versions {
		s.add("DELETE FROM %s.weir_versions WHERE tbl = %s", d.schema, literal(table))
	}
	s.add("DELETE FROM %s.weir_meta WHERE name = %s", d.schema, literal(sink.VersionsMark(table)))
}

// versionsLock returns the number of the advisory lock of a table's versions.
func (d *DB) versionsLock(table *relation) int64 {
	return lockNumber("versions", d.schema, d.fullName(table))
}

// exclusive reports whether the flush must be the only one that writes the table's versions. Otherwise flushes share
// the lock: one that finds that another has just written one of its rows starts again with an exclusive lock.
func (p *part) exclusive() bool {
	b := p.b
	switch {
	case p.a.piecewise, p.a.f.Rebuild, p.a.moved > 0:
		return true
	case !p.t.Exists, len(p.ddl) > 0:
		return true
	}
	return b.Scope == fold.ColumnScope && p.t.versioned == nil // it may be the first one
}

// A lookup is what is read from the database before a table is written, and by which statements: 0 means none, because
// the first statement of the script returns no rows.
type lookup struct {
	repeated *repeated // rows without versions that the batch repeats; nil: not read
	// For rows with versions:
	names, rows int // the names of columns, and the rows
}

// askVersions adds statements that read what the database has of the rows.
func (p *part) askVersions() {
	p.lookup = &lookup{}
	p.askStored()
	if p.b.Scope == fold.ColumnScope { // read after the states, so every column number in them has a name
		p.lookup.names = p.a.script.add("SELECT value FROM %s.weir_meta WHERE name = %s", p.a.d.schema, literal(sink.VersionsMark(p.a.d.fullName(&p.after))))
	}
}

// askStored adds statements that stage the rows' keys, and read what the database has of them.
func (p *part) askStored() {
	d, s := p.a.d, p.a.script
	shape := p.newShape(p.b, p.writes)
	keys := shape.keysOnly()
	p.stageRows(shape, &staging{shape: keys, b: p.b, rows: p.writes, keyed: true})
	s.put(keys.resolutions()...)
	sql := keys.versionsSQL(p.version())
	if p.b.Scope == fold.ColumnScope {
		sql = keys.statesSQL(d.schema, d.fullName(&p.after))
	}
	p.lookup.rows = s.addAll(sql)
}

// statesSQL reads the states of staged rows, and whether they are in the table. OFFSET makes the planner look up each
// row by its whole key, whatever it knows about the table.
func (s *shape) statesSQL(schema, table string) string {
	return fmt.Sprintf(`SELECT s.n, (SELECT t.xmin FROM %s t WHERE %s), encode(v.state, 'hex'), v.xmin
FROM %s s,
  LATERAL (SELECT state, xmin FROM %s.weir_versions WHERE tbl = %s AND key = s.key OFFSET 0) v`,
		s.table.ident, s.on(), s.stage, schema, literal(table))
}

// versionsSQL reads the versions of staged rows that are in the table.
func (s *shape) versionsSQL(version string) string {
	return fmt.Sprintf(`SELECT s.n, r.xmin, r.version
FROM %s s,
  LATERAL (SELECT t.xmin, (%s)::text AS version FROM %s t WHERE %s OFFSET 0) r`, s.stage, version, s.table.ident, s.on())
}

// version returns the column with a row's version. Its type may differ from the batch's, if others widened it.
func (p *part) version() string {
	if p.b.Version < 0 {
		return "NULL"
	}
	version := "t." + ident(p.b.Table.Columns[p.b.Version].Name)
	if at := caps.Find(&p.after.Table, p.b.Table.Columns[p.b.Version].Name, p.b.Version); at >= 0 && p.after.Columns[at].Type == schema.Real {
		version = widened(version, schema.Real, schema.Number)
	}
	return version
}

// readVersions handles the results of askVersions, and plans to write the newer rows.
func (p *part) readVersions(r []result) error {
	var names []string
	for _, row := range r[p.lookup.names].rows {
		if err := json.Unmarshal(row[0], &names); err != nil {
			return err
		}
	}
	all := p.storedRows()
	if err := p.decodeStored(all, r[p.lookup.rows].rows); err != nil {
		return err
	}
	return p.planNewer(names, all)
}

// storedRows returns the rows as if the database had none of them.
func (p *part) storedRows() []storedRow {
	all := make([]storedRow, len(p.writes))
	for i, r := range p.writes {
		all[i].row = r
	}
	return all
}

// planNewer plans to write the rows that are newer than those found. kept are the names of the columns that have
// versions.
func (p *part) planNewer(kept []string, all []storedRow) error {
	resolver := fold.NewResolver(p.b, kept, &p.after.Table)
	v := &versions{kept: kept, names: resolver.Names()}
	var rows []*fold.Row
	for i := range all {
		res, err := resolver.Resolve(all[i].row, all[i].was)
		if err != nil {
			return err
		}
		if res.Unchanged && res.State == nil {
			continue
		}
		from := all[i].itself
		if res.State != nil {
			from = all[i].state
		}
		rows, v.rows = append(rows, &res.Row), append(v.rows, rowVersion{res.State, from})
	}
	p.plan = p.newPlan(resolver.Batch(), rows)
	p.plan.versions = v
	return nil
}

// A storedRow is a row, what the database has of it, and the origins of the row and of its state.
type storedRow struct {
	row           *fold.Row
	was           fold.Stored
	itself, state origin
}

// decodeStored decodes what was found of rows: their numbers, the xmin of existing ones, their state or version, and
// the xmin of the state.
func (p *part) decodeStored(all []storedRow, found [][][]byte) (err error) {
	for _, row := range found {
		r := &all[sink.Number(row[0])]
		r.itself, r.was.Exists = row[1], row[1] != nil
		if p.b.Scope == fold.RowScope {
			r.was.Version = row[2]
			continue
		}
		if r.was.State, err = unhex(row[2]); err != nil {
			return err
		}
		r.state = row[3]
	}
	return nil
}

// unhex decodes a hex value in place.
func unhex(text []byte) ([]byte, error) {
	n, err := hex.Decode(text, text)
	return text[:n], err
}

// keep adds statements that store the versions of the written rows, and remove old deletes.
func (p *part) keep(s *script) {
	v, d, table := p.plan.versions, p.a.d, p.a.d.fullName(&p.after)
	if p.b.Scope != fold.ColumnScope {
		return
	}
	if p.isCopied() {
		v.copyAll(s, d.schema, table, p.plan.rows)
	} else {
		s.put(p.plan.statesMerge(d.schema, table))
	}
	// Rows that another writer has locked are left to that writer, and to the next flush.
	s.add("DELETE FROM %s.weir_versions WHERE ctid = ANY (ARRAY(SELECT ctid FROM %[1]s.weir_versions WHERE tbl = %s AND gone < now() - interval '%d seconds' FOR UPDATE SKIP LOCKED))",
		d.schema, literal(table), int64(p.a.f.Tombstones.Seconds()))
	if len(v.names) > len(v.kept) {
		s.put(statement{sql: fmt.Sprintf("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = CASE 1 / (weir_meta.value IS NOT DISTINCT FROM %s)::integer WHEN 1 THEN excluded.value END",
			d.schema, literal(sink.VersionsMark(table)), literal(namesText(v.names)), v.keptText()), means: means(errMoved, divisionByZero)})
	}
}

// statesMerge writes the staged states in key order, so writers cannot deadlock; a left join by nested loops keeps the
// order. Rows are written after all states: until the commit, no other session can write a row whose state this flush
// has written. If a state is not the one that the row was resolved against, a division by zero ends the transaction, as
// with the fence. The table's name is an expression of the staged row: otherwise the planner would read all states of a
// table whose size it does not know, and compare each with each row. The expression is NULL for rows without a state,
// which are not looked up.
func (u *upsert) statesMerge(schema, table string) statement {
	matched, missing := "s.state", "s.state"
	if u.guarded {
		const state = "CASE 1 / (%s)::integer WHEN 1 THEN s.state END"
		matched, missing = fmt.Sprintf(state, "v.xmin IS NOT DISTINCT FROM s.found"), fmt.Sprintf(state, "s.found IS NULL")
	}
	const gone = "CASE WHEN s.op = 'd' THEN now() END"
	return statement{sql: fmt.Sprintf(`MERGE INTO %s.weir_versions v
USING %s s ON v.tbl = CASE WHEN `+hasState+` THEN %s END AND v.key = s.key
WHEN MATCHED
  THEN UPDATE SET
    state = %s,
    gone = `+gone+`
WHEN NOT MATCHED AND `+hasState+`
  THEN INSERT (tbl, key, state, gone)
    VALUES (%[3]s, s.key, %[5]s, `+gone+`)`, schema, "(SELECT n, op, key, state, found FROM "+u.stage+" ORDER BY n)", literal(table), matched, missing),
		means: means(errMoved, divisionByZero, uniqueViolation)}
}

// keptText returns a literal of the names as found.
func (v *versions) keptText() string {
	if v.kept == nil {
		return "NULL"
	}
	return literal(namesText(v.kept))
}

// copyAll adds a COPY of the versions of rows that have no stored versions. Others may have given columns numbers in
// the meantime.
func (v *versions) copyAll(s *script, schema, table string, rows []*fold.Row) {
	s.put(demand(errMoved, "(SELECT max(value) FROM %s.weir_meta WHERE name = %s) IS NOT DISTINCT FROM %s", schema, literal(sink.VersionsMark(table)), v.keptText()))
	states := func(w *copyWriter) error {
		prefix := append(appendCopyText(nil, []byte(table)), '\t')
		for n, r := range rows {
			state := v.rows[n].state
			if state == nil {
				continue
			}
			buf := append(appendHex(append(w.line(), prefix...), r.Key), '\t')
			if err := w.done(append(appendHex(buf, state), '\n')); err != nil {
				return err
			}
		}
		return nil
	}
	s.put(statement{sql: "COPY " + schema + ".weir_versions (tbl, key, state) FROM STDIN", copy: states, means: means(errMoved, uniqueViolation)})
}

// appendTo appends a row's version for the staging table.
func (v *rowVersion) appendTo(line []byte) []byte {
	if v.state == nil {
		line = append(line, '\\', 'N', '\t')
	} else {
		line = append(appendHex(line, v.state), '\t')
	}
	if v.origin == nil {
		return append(line, '\\', 'N', '\t')
	}
	return append(append(line, v.origin...), '\t')
}

func namesText(names []string) string {
	text, _ := json.Marshal(names) // only strings
	return string(text)
}

// appendHex appends bytes in a COPY's format for bytea.
func appendHex(dst, b []byte) []byte {
	return hex.AppendEncode(append(dst, `\\x`...), b)
}
