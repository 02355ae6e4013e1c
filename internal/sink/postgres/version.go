package postgres

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// versioned is what a merge needs of a batch that has versions.
type versioned struct {
	table   string // in weir_versions
	looking bool   // for what the database has: no state is staged yet
	alone   bool   // no other writer of the table's versions runs at the same time
	states  [][]byte
	found   [][]byte // the xmin of the state that each row was resolved against, of the row where its state stays; nil: none
	names   []string // of the columns, by their number in the states
	kept    []string // the names as they were found
}

func (d *DB) fullName(t *relation) string { return identOf(d.schemaOf(t.ident)) }

// dropVersions adds what removes the versions of a table by its full name.
func (d *DB) dropVersions(s *script, table string) {
	if d.versions {
		s.add("DELETE FROM %s.weir_versions WHERE tbl = %s", d.schema, literal(table))
	}
	s.add("DELETE FROM %s.weir_meta WHERE name IN (%s, %s)", d.schema, literal(sink.VersionsMark(table)), literal(sink.OrphansMark(table)))
}

// versionsLock is the number of the advisory lock of a table's versions.
func (d *DB) versionsLock(table *relation) int64 {
	return lockNumber("versions", d.schema, d.fullName(table))
}

// alone reports whether the flush must be the only one that writes the table's versions. Others share
// the lock of these: a flush that finds that another one has written a row of its own first starts
// again, alone.
func (p *part) alone() bool {
	b := p.b
	switch {
	case p.a.piecewise, p.a.f.Rebuild, p.a.tries[errRaced]+p.a.tries[errGone] > 0:
		return true
	case !p.t.Exists, len(p.ddl) > 0:
		return true
	case b.Scope == fold.ColumnScope && !p.t.Versioned && p.t.names == nil:
		return true // it may be the first one
	}
	// What becomes of a row depends on the deletes of the one that it belongs to.
	return p.follows() != nil || slices.ContainsFunc(p.a.parts, func(q *part) bool {
		return q.b.Child != nil && !q.set && p.a.parts[q.b.Child.Parent] == p
	})
}

// versioned is what a merge of the rows needs.
func (p *part) versioned() *versioned {
	return &versioned{table: p.a.d.fullName(&p.after), alone: p.alone(), names: p.t.names, kept: p.t.names}
}

// readyVersions adds what makes the table of the versions, and takes away those that
// another table of the same name left.
func (d *DB) readyVersions(s *script, table *relation) {
	if !d.versions {
		for _, q := range d.dialect().Versions() {
			s.add("%s", q)
		}
	}
	name := d.fullName(table)
	s.add("DELETE FROM %s.weir_versions WHERE tbl = %s AND NOT EXISTS (SELECT FROM %s.weir_meta WHERE name = %s)", d.schema, literal(name), d.schema, literal(sink.VersionsMark(name)))
}

// lookup is where the answer to what the database has of rows is found.
type lookup struct {
	versions    *versioned
	stage       stage
	names, rows int // statements; -1 where there is none
	follow
}

// look adds what reads what the database has of the rows.
func (p *part) look() {
	v := p.versioned()
	v.looking, v.names = true, nil
	m := p.a.d.newMerge(p.b, p.t, p.after, p.writes)
	p.merge, m.versions = m, v
	p.found = lookup{versions: v, stage: p.t.stage, names: -1, rows: -1}
	p.lookBelow()
	if len(p.writes) > 0 {
		p.lookFor(m)
	}
	if p.b.Scope == fold.ColumnScope { // others add names: these have all numbers of the states that were just read
		p.found.names = p.a.script.add("SELECT value FROM %s.weir_meta WHERE name = %s", p.a.d.schema, literal(sink.VersionsMark(v.table)))
	}
}

// lookFor adds what stages the keys of the rows of a merge, and reads what the database has of them.
func (p *part) lookFor(m *merge) {
	d, s, table := p.a.d, p.a.script, &p.after
	sql, now := m.prepare(len(p.writes))
	for _, q := range sql {
		s.add("%s", q)
	}
	m.used = slices.DeleteFunc(m.used, func(u staged) bool { return !table.Columns[u.at].Key })
	m.bits, m.deletes, m.replaces = 0, false, false
	m.stage(s, p.writes)
	m.findOwners(s)
	now.rows = len(p.writes)
	p.found.stage = now
	// OFFSET has the planner look each row up, by all of the key, whatever it knows of the table.
	if p.b.Scope == fold.ColumnScope {
		s.avoidScans(table.relations() + " UNION ALL SELECT " + quote(d.schema+".weir_versions") + "::regclass")
		p.found.rows = s.add("SELECT s.n, (SELECT t.xmin FROM %s t WHERE %s), encode(v.state, 'hex'), v.xmin FROM %s s,"+
			" LATERAL (SELECT state, xmin FROM %s.weir_versions WHERE tbl = %s AND key = s.key OFFSET 0) v",
			table.ident, m.on(), m.t.stageName(), d.schema, literal(m.versions.table))
		return
	}
	s.avoidScans(table.relations())
	p.found.rows = s.add("SELECT s.n, r.xmin, r.version FROM %s s, LATERAL (SELECT t.xmin, (%s)::text AS version FROM %s t WHERE %s OFFSET 0) r",
		m.t.stageName(), p.version(), table.ident, m.on())
}

// version is what a row has its version in, of a type that may be another one than the batch's, if others widened it.
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

// resolved takes the answer to look, and makes the merge one of the rows that are newer.
func (p *part) resolved(r []result) error {
	v := p.found.versions
	p.t.stage = p.found.stage // as long as the transaction lives
	if n := p.found.names; n >= 0 && len(r[n].rows) > 0 {
		if err := json.Unmarshal(r[n].rows[0][0], &v.names); err != nil {
			return err
		}
	}
	v.looking = false
	return p.mergeNewer(v, r)
}

// mergeNewer makes the merge one of those rows that are newer than what was found of them; nil: nothing
// was, as of rows that are all assumed to be new: a duplicate key makes the flush fall back to look.
func (p *part) mergeNewer(v *versioned, found []result) (err error) {
	p.newest = fold.NewResolver(p.b, v.names, &p.after.Table)
	if above := p.follows(); above != nil && above.newest != nil {
		p.newest.Below(above.newest)
	}
	all := make([]storedRow, len(p.writes))
	for i, r := range p.writes {
		all[i].row = r
	}
	if found != nil {
		if p.found.rows >= 0 {
			err = p.takeStored(all, found[p.found.rows].rows)
		}
		if err == nil {
			all, err = p.follow(all, found)
		}
		if err != nil {
			return err
		}
	}
	p.newer, err = v.read(p.newest, all)
	if p.merge = nil; len(all) > 0 {
		p.merge = p.a.d.newMerge(p.newest.Batch(), p.t, p.after, p.newer)
		p.merge.versions = v
	}
	return err
}

// A storedRow is a row, what the database has of it, and the xmin of the row that was found and of its
// state; nil: there is none.
type storedRow struct {
	row          *fold.Row
	was          fold.Stored
	found, state []byte
}

// takeStored takes what was found of rows: their numbers, the xmin of those that the table has, their state or version,
// and the xmin of the state.
func (p *part) takeStored(all []storedRow, found [][][]byte) (err error) {
	for _, row := range found {
		r := &all[number(row[0])]
		r.found, r.was.Exists = row[1], row[1] != nil
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

// unhex decodes what a query has encoded, in its place.
func unhex(text []byte) ([]byte, error) {
	n, err := hex.Decode(text, text)
	return text[:n], err
}

// read resolves the rows.
func (v *versioned) read(resolver *fold.Resolver, all []storedRow) (rows []*fold.Row, err error) {
	v.kept, v.names = v.names, resolver.Names()
	for i := range all {
		res, err := resolver.Resolve(all[i].row, all[i].was)
		if err != nil {
			return nil, err
		}
		if res.Unchanged && res.State == nil {
			continue
		}
		from := all[i].found
		if res.State != nil {
			from = all[i].state
		}
		rows, v.states, v.found = append(rows, &res.Row), append(v.states, res.State), append(v.found, from)
	}
	return rows, nil
}

// keep adds what keeps the versions of the rows that are written, and forgets
// deletes that are old.
func (v *versioned) keep(s *script, m *merge, f *sink.Flush, rows []*fold.Row) {
	if m.b.Scope != fold.ColumnScope {
		return
	}
	d := m.d
	if m.plain {
		v.copyAll(s, m, rows)
	} else {
		v.mergeStates(s, m)
	}
	// What another writer has locked is left to it, and to the next flush.
	s.add("DELETE FROM %s.weir_versions WHERE ctid = ANY (ARRAY(SELECT ctid FROM %[1]s.weir_versions WHERE tbl = %s AND gone < now() - interval '%d seconds' FOR UPDATE SKIP LOCKED))",
		d.schema, literal(v.table), int64(f.Tombstones.Seconds()))
	if len(v.names) > len(v.kept) {
		s.means(s.add("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = CASE 1 / (weir_meta.value IS NOT DISTINCT FROM %s)::integer WHEN 1 THEN excluded.value END",
			d.schema, literal(sink.VersionsMark(v.table)), literal(namesText(v.names)), v.keptText(d)), errRaced, divisionByZero)
	}
}

// mergeStates adds what writes the staged states in the order of their keys, which a left join by nested
// loops keeps: so writers cannot wait for each other in a circle. Rows are written after all states:
// until the commit, nobody else can write a row whose state this flush has written. Where a state is not
// the one that the row was resolved against, a division by zero ends the transaction, as with the
// fence. The table's name is an expression of the staged row: else the planner would read all states of a table whose size it
// does not know, and compare each with each row. It is NULL for rows without a state, which are not looked for.
func (v *versioned) mergeStates(s *script, m *merge) {
	d, matched, missing := m.d, "s.state", "s.state"
	if !v.alone {
		const state = "CASE 1 / (%s)::integer WHEN 1 THEN s.state END"
		matched, missing = fmt.Sprintf(state, "v.xmin IS NOT DISTINCT FROM s.found"), fmt.Sprintf(state, "s.found IS NULL")
	}
	s.avoidScans("SELECT " + quote(d.schema+".weir_versions") + "::regclass")
	const gone = "CASE WHEN s.op = 'd' THEN now() END"
	n := s.add("MERGE INTO %s.weir_versions v USING %s s ON v.tbl = CASE WHEN "+hasState+" THEN %s END AND v.key = s.key"+
		" WHEN MATCHED THEN UPDATE SET state = %s, gone = "+gone+
		" WHEN NOT MATCHED AND "+hasState+" THEN INSERT (tbl, key, state, gone) VALUES (%[3]s, s.key, %[5]s, "+gone+")",
		d.schema, m.sorted("n, op, key, state, found"), literal(v.table), matched, missing)
	s.means(n, errRaced, divisionByZero, uniqueViolation)
}

// asFound is the condition, with AND behind it, that a row t of the table is the one that the staged
// row was resolved against, or one that the flush has written, if it is not sure.
func (m *merge) asFound(sure string) string {
	if v := m.versions; v == nil || v.alone {
		return ""
	}
	return "(" + sure + " OR t.xmin = s.found OR t.xmin = pg_current_xact_id()::xid) AND "
}

// keptText is the literal of the names as they were found.
func (v *versioned) keptText(d *DB) string {
	if v.kept == nil {
		return "NULL"
	}
	return literal(namesText(v.kept))
}

// copyAll adds what copies the versions of rows of which none are kept. Others may have
// given columns numbers in the meantime.
func (v *versioned) copyAll(s *script, m *merge, rows []*fold.Row) {
	d := m.d
	s.demand(errRaced, "(SELECT max(value) FROM %s.weir_meta WHERE name = %s) IS NOT DISTINCT FROM %s", d.schema, literal(sink.VersionsMark(v.table)), v.keptText(d))
	s.means(s.add("COPY %s.weir_versions (tbl, key, state) FROM STDIN", d.schema), errRaced, uniqueViolation)
	s.copies = append(s.copies, func(w *copyWriter) error {
		table := append(appendCopyText(nil, []byte(v.table)), '\t')
		for n, r := range rows {
			if v.states[n] == nil {
				continue
			}
			buf := append(appendHex(append(w.line(), table...), r.Key), '\t')
			if err := w.done(append(appendHex(buf, v.states[n]), '\n')); err != nil {
				return err
			}
		}
		return nil
	})
}

// appendTo appends what is staged beside the key of a row.
func (v *versioned) appendTo(line []byte, n int) []byte {
	if v.looking || v.states[n] == nil {
		line = append(line, '\\', 'N', '\t')
	} else {
		line = append(appendHex(line, v.states[n]), '\t')
	}
	if v.looking || v.found[n] == nil {
		return append(line, '\\', 'N', '\t')
	}
	return append(append(line, v.found[n]...), '\t')
}

func namesText(names []string) string {
	text, _ := json.Marshal(names) // strings alone
	return string(text)
}

// appendHex appends bytes as a COPY takes a bytea.
func appendHex(dst, b []byte) []byte {
	return hex.AppendEncode(append(dst, `\\x`...), b)
}
