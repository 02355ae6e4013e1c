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
	kept   []string // columns by their number in the states, as found
	names  []string // columns by their number from now on
	states [][]byte // by row, the state to store; nil: the stored state is unchanged
}

func (d *DB) fullName(t *relation) string { return identOf(d.schemaOf(t.ident)) }

// dropVersions adds statements that remove a table's versions, by its full name.
func (d *DB) dropVersions(s *script, table string) {
	if d.versions {
		s.add("DELETE FROM %s.weir_versions WHERE tbl = %s", d.schema, literal(table))
	}
	s.add("DELETE FROM %s.weir_meta WHERE name = %s", d.schema, literal(sink.VersionsMark(table)))
}

// askVersions adds statements that stage the rows' keys, and read what the database has of them.
func (p *part) askVersions() {
	d, s := p.a.d, p.a.script
	shape, full := p.newShape(p.b, p.writes), d.fullName(&p.after)
	keys := shape.keysOnly()
	p.stageRows(shape, &staging{shape: keys, b: p.b, rows: p.writes, keyed: true})
	s.put(keys.resolutions()...)
	if p.b.Scope == fold.RowScope {
		rows := s.addAll(keys.versionsSQL(p.version()))
		p.asked = func(r []result) error { return p.readVersions(nil, r[rows].rows) }
		return
	}
	rows := s.addAll(keys.statesSQL(d.schema, full))
	// Read after the states, so every column number in them has a name.
	names := s.add("SELECT value FROM %s.weir_meta WHERE name = %s", d.schema, literal(sink.VersionsMark(full)))
	p.asked = func(r []result) error { return p.readVersions(r[names].rows, r[rows].rows) }
}

// statesSQL reads the states of staged rows, and whether they are in the table. OFFSET makes the planner look up each
// row by its whole key, whatever it knows about the table.
func (s *shape) statesSQL(schema, table string) string {
	return fmt.Sprintf(`SELECT s.n, encode(v.state, 'hex'), EXISTS (SELECT FROM %s t WHERE %s)
FROM %s s,
  LATERAL (SELECT state FROM %s.weir_versions WHERE tbl = %s AND key = s.key OFFSET 0) v`,
		s.table.ident, s.on(), s.stage, schema, literal(table))
}

// versionsSQL reads the versions of staged rows that are in the table.
func (s *shape) versionsSQL(version string) string {
	return fmt.Sprintf(`SELECT s.n, r.version
FROM %s s,
  LATERAL (SELECT (%s)::text AS version FROM %s t WHERE %s OFFSET 0) r`, s.stage, version, s.table.ident, s.on())
}

// version returns the column with a row's version. Its type may differ from the batch's, if others widened it.
func (p *part) version() string {
	if p.b.Version < 0 {
		return "NULL"
	}
	name := p.b.Table.Columns[p.b.Version].Name
	version := "t." + ident(name)
	if at := caps.Find(&p.after.Table, name, p.b.Version); at >= 0 && p.after.Columns[at].Type == schema.Real {
		version = widened(version, schema.Real, schema.Number)
	}
	return version
}

// readVersions handles the results of askVersions, and plans to write the newer rows.
func (p *part) readVersions(mark, found [][][]byte) error {
	var names []string
	for _, row := range mark {
		if err := json.Unmarshal(row[0], &names); err != nil {
			return err
		}
	}
	was := make([]fold.Stored, len(p.writes))
	for _, row := range found {
		w := &was[sink.Number(row[0])]
		if p.b.Scope == fold.RowScope {
			w.Exists, w.Version = true, row[1]
			continue
		}
		w.Exists, w.State = string(row[2]) == "t", make([]byte, len(row[1])/2)
		if _, err := hex.Decode(w.State, row[1]); err != nil {
			return err
		}
	}
	return p.planNewer(names, was)
}

// planNewer plans to write the rows that are newer than what the database has of them. kept are the names of the columns
// that have versions.
func (p *part) planNewer(kept []string, was []fold.Stored) error {
	resolver := fold.NewResolver(p.b, kept, &p.after.Table)
	v := &versions{kept: kept, names: resolver.Names()}
	var rows []*fold.Row
	for i, r := range p.writes {
		res, err := resolver.Resolve(r, was[i])
		if err != nil {
			return err
		}
		if !res.Unchanged || res.State != nil {
			rows, v.states = append(rows, &res.Row), append(v.states, res.State)
		}
	}
	p.plan = p.newPlan(resolver.Batch(), rows)
	p.plan.versions = v
	return nil
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
		s.add(`INSERT INTO %s.weir_versions AS v (tbl, key, state, gone)
SELECT %s, key, state, CASE WHEN op = 'd' THEN now() END
FROM %s
WHERE state IS NOT NULL
ON CONFLICT (tbl, key) DO UPDATE SET state = excluded.state, gone = excluded.gone`, d.schema, literal(table), p.plan.stage)
	}
	s.add("DELETE FROM %s.weir_versions WHERE tbl = %s AND gone < now() - interval '%d seconds'", d.schema, literal(table), int64(p.a.f.Tombstones.Seconds()))
	if len(v.names) > len(v.kept) {
		s.addAll(d.dialect().SetMark(sink.VersionsMark(table), namesText(v.names)))
	}
}

// copyAll adds a COPY of the versions of rows that have no stored versions. Others may have given columns numbers in
// the meantime.
func (v *versions) copyAll(s *script, schema, table string, rows []*fold.Row) {
	kept := "NULL"
	if v.kept != nil {
		kept = literal(namesText(v.kept))
	}
	s.put(demand(errMoved, "(SELECT max(value) FROM %s.weir_meta WHERE name = %s) IS NOT DISTINCT FROM %s", schema, literal(sink.VersionsMark(table)), kept))
	states := func(w *copyWriter) error {
		prefix := append(appendCopyText(nil, []byte(table)), '\t')
		for n, r := range rows {
			state := v.states[n]
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

func namesText(names []string) string {
	text, _ := json.Marshal(names) // only strings
	return string(text)
}

// appendHex appends bytes in a COPY's format for bytea.
func appendHex(dst, b []byte) []byte {
	return hex.AppendEncode(append(dst, `\\x`...), b)
}
