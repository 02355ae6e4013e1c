package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// versioned is what a merge needs of a batch that has versions.
type versioned struct {
	table   string // in weir_versions
	looking bool   // for what the database has: no state is staged yet
	states  [][]byte
	names   []string // of the columns, by their number in the states
	changed bool     // the names are others than those that are kept
}

func (d *DB) fullName(t *relation) string { return identOf(d.schemaOf(t.ident)) }

func (d *DB) hasVersions(ctx context.Context) (bool, error) {
	r, err := d.query(ctx, "SELECT to_regclass("+d.literal(d.schema+".weir_versions")+") IS NOT NULL")
	return err == nil && string(r[0].rows[0][0]) == "t", err
}

// dropVersions adds what removes the versions of a table by its full name.
func (d *DB) dropVersions(s *script, table string) {
	if d.versions {
		s.add("DELETE FROM %s.weir_versions WHERE tbl = %s", d.schema, d.literal(table))
	}
	s.add("DELETE FROM %s.weir_meta WHERE name = %s", d.schema, d.literal(sink.VersionsMark(table)))
}

// lockVersions adds what has the other writers of the table's versions wait.
func (d *DB) lockVersions(s *script, table *relation) {
	s.add("SELECT pg_advisory_xact_lock(%d)", lockNumber("versions", d.schema, d.fullName(table)))
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
	s.add("DELETE FROM %s.weir_versions WHERE tbl = %s AND NOT EXISTS (SELECT FROM %s.weir_meta WHERE name = %s)", d.schema, d.literal(name), d.schema, d.literal(sink.VersionsMark(name)))
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
	d, b, s, table := p.a.d, p.b, p.a.script, &p.after
	v := &versioned{table: d.fullName(table), looking: true}
	m := d.newMerge(b, p.t, p.after, p.writes)
	p.merge, m.versions = m, v
	p.found = lookup{versions: v, stage: p.t.stage, names: -1, rows: -1}
	if b.Scope == fold.ColumnScope {
		p.found.names = s.add("SELECT value FROM %s.weir_meta WHERE name = %s", d.schema, d.literal(sink.VersionsMark(v.table)))
	}
	p.lookBelow()
	if len(p.writes) == 0 {
		return
	}
	sql, now := m.prepare()
	for _, q := range sql {
		s.add("%s", q)
	}
	m.used = slices.DeleteFunc(m.used, func(u staged) bool { return !table.Columns[u.at].Key })
	m.bits, m.deletes, m.replaces = 0, false, false
	s.add("%s", m.copySQL())
	s.copies = append(s.copies, m.encode(p.writes))
	m.findOwners(s)
	now.rows = len(p.writes)
	p.found.stage = now
	if b.Scope == fold.ColumnScope {
		p.found.rows = s.add("SELECT s.n, EXISTS (SELECT FROM %s t WHERE %s), encode(v.state, 'hex') FROM %s s JOIN %s.weir_versions v ON v.tbl = %s AND v.key = s.key",
			table.ident, m.on(), m.t.stageName, d.schema, d.literal(v.table))
		return
	}
	p.found.rows = s.add("SELECT s.n, true, (%s)::text FROM %s s JOIN %s t ON %s", p.version(), m.t.stageName, table.ident, m.on())
}

// version is what a row has its version in.
func (p *part) version() string {
	if p.b.Version < 0 {
		return "NULL"
	}
	c := &p.b.Table.Columns[p.b.Version]
	version := "t." + ident(c.Name)
	if c.Type == schema.Real {
		version = widened(version, c.Type, schema.Number)
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

// mergeAssumingNew makes the merge one that assumes that no row exists yet; a duplicate key
// makes the flush fall back to look.
func (p *part) mergeAssumingNew() error {
	return p.mergeNewer(&versioned{table: p.a.d.fullName(&p.after), names: p.t.names}, nil)
}

// mergeNewer makes the merge one of those rows that are newer than what was found of them; nil: nothing
// was.
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
			err = takeStored(all, found[p.found.rows].rows, p.b.Scope)
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

// A storedRow is a row, and what the database has of it.
type storedRow struct {
	row *fold.Row
	was fold.Stored
}

// takeStored takes what was found of rows: their numbers, whether the table has them, and their state
// or version.
func takeStored(rows []storedRow, found [][][]byte, scope fold.Scope) (err error) {
	for _, row := range found {
		at := &rows[number(row[0])].was
		at.Exists = string(row[1]) == "t"
		if scope == fold.RowScope {
			at.Version = row[2]
		} else if at.State, err = unhex(row[2]); err != nil {
			return err
		}
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
	known := len(v.names)
	v.names = resolver.Names()
	v.changed = len(v.names) > known && resolver.Batch().Scope == fold.ColumnScope
	for i := range all {
		res, err := resolver.Resolve(all[i].row, all[i].was)
		if err != nil {
			return nil, err
		}
		if !res.Unchanged || res.State != nil {
			rows = append(rows, &res.Row)
			v.states = append(v.states, res.State)
		}
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
		s.add("INSERT INTO %s.weir_versions (tbl, key, state, gone) SELECT %s, s.key, s.state, CASE WHEN s.op = 'd' THEN now() END FROM %s s WHERE s.state IS NOT NULL ORDER BY s.key"+
			" ON CONFLICT (tbl, key) DO UPDATE SET state = excluded.state, gone = excluded.gone", d.schema, d.literal(v.table), m.t.stageName)
	}
	s.add("DELETE FROM %s.weir_versions WHERE tbl = %s AND gone < now() - interval '%d seconds'", d.schema, d.literal(v.table), int64(f.Tombstones.Seconds()))
	if v.changed {
		s.add("%s", d.keepMark(sink.VersionsMark(v.table), namesText(v.names)))
	}
}

// copyAll adds what copies the versions of rows of which none are kept. Others may have
// given columns numbers in the meantime: then the text of a number that is none ends the
// transaction.
func (v *versioned) copyAll(s *script, m *merge, rows []*fold.Row) {
	d, known := m.d, "NULL"
	if m.t.names != nil {
		known = d.literal(namesText(m.t.names))
	}
	s.add("SELECT CASE WHEN max(value) IS DISTINCT FROM %s THEN ('weir: other columns are numbered' || count(*))::int END FROM %s.weir_meta WHERE name = %s",
		known, d.schema, d.literal(sink.VersionsMark(v.table)))
	s.add("COPY %s.weir_versions (tbl, key, state) FROM STDIN", d.schema)
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

func namesText(names []string) string {
	text, _ := json.Marshal(names) // strings alone
	return string(text)
}

// appendHex appends bytes as a COPY takes a bytea.
func appendHex(dst, b []byte) []byte {
	return hex.AppendEncode(append(dst, `\\x`...), b)
}
