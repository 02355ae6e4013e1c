package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// Tables implements [sink.Sink].
func (d *DB) Tables(ctx context.Context, wanted ...sink.TableKey) ([]schema.Table, error) {
	if err := d.connect(ctx); err != nil {
		return nil, err
	}
	relations, err := d.readRelations(ctx, wanted)
	if err != nil && !errors.As(err, new(sink.KeyError)) {
		return nil, d.sinkError(err)
	}
	tables := make([]schema.Table, len(wanted))
	for i := range relations {
		t, known, key := &relations[i], d.tableOf(wanted[i].Name), wanted[i].Key
		if key == nil && t.Exists {
			key = t.KeyColumns()
		}
		t.FullName = d.fullName(t)
		known.relation, known.key = *t, key
		tables[i] = t.Clone()
	}
	return tables, err
}

// A tableFacts is what the catalogs say about a table: a row of tableSQL.
type tableFacts struct {
	Schema     string
	Kind       string // a relkind
	Unlogged   bool
	Options    string
	Policed    bool   // row-level security applies to this role
	Rewritten  bool   // it has rules
	Rules      int    // constraints and triggers of others
	Triggers   bool   // on inserts
	Below      bool   // other tables have rows of it
	Deferrable string // a unique or exclusion constraint that triggers check
	Columns    []columnRow
	Indexes    []indexRow
	Keys       []schema.ForeignKey // that weir created
	Referrers  []schema.Referrer
	Facts      string   // see factsSQL
	ID         string   // see idSQL
	Marks      string   // [sink.ColumnsMark]
	Versions   []string // [sink.VersionsMark]
}

// tableSQL reads a table, {t}, as JSON.
const tableSQL = `SELECT row_to_json(x) FROM (
  SELECT n.nspname AS schema, r.relkind AS kind, r.relpersistence = 'u' AS unlogged, array_to_string(r.reloptions, ',') AS options,
    row_security_active(r.oid) AS policed, r.relhasrules AS rewritten,
    (SELECT count(*) FROM pg_trigger WHERE tgrelid = r.oid AND NOT tgisinternal)
      + (SELECT count(*) FROM pg_constraint k WHERE (conrelid = r.oid AND contype IN ('c', 'f', 'x') OR confrelid = r.oid) AND NOT (` + ownKey + `)) AS rules,
    EXISTS (SELECT FROM pg_trigger
      WHERE (tgrelid = r.oid OR tgrelid IN (SELECT relid FROM pg_partition_tree(r.oid))) AND NOT tgisinternal AND tgtype & 4 <> 0) AS triggers,
    r.relhassubclass AS below,
    (SELECT min(conname) FROM pg_constraint
      WHERE (conrelid = r.oid OR conrelid IN (SELECT relid FROM pg_partition_tree(r.oid))) AND contype IN ('p', 'u', 'x') AND condeferrable) AS deferrable,
    (SELECT json_agg(c) FROM (` + columnsSQL + `) c) AS columns,
    (SELECT json_agg(i) FROM (` + indexesSQL + `) i) AS indexes,
    (SELECT json_agg(k) FROM (` + keysSQL + `) k WHERE own) AS keys,
    (SELECT json_agg(k) FROM (` + keysSQL + `) k WHERE NOT own) AS referrers,
    (` + factsSQL + `) AS facts, {own}
  FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace
  WHERE r.oid = to_regclass({t})) x`

// factsSQL is a subquery for what flushes rely on in a table r, as text: how values are checked and staged, which
// columns the database fills in, which keys are unique, and what else may change or reject a row.
const factsSQL = `SELECT concat_ws('; ',
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN atthasdef OR typdefaultbin IS NOT NULL THEN 'DEFAULT' END, nullif(attidentity, ''), nullif(attgenerated, ''),
        (SELECT string_agg(enumlabel, '|' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (y.oid, typbasetype))), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg('UNIQUE ' || indkey::text, ', ' ORDER BY indkey::text) FROM pg_index
      WHERE indrelid = c.oid AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL),
    CASE WHEN relchecks > 0 THEN 'CHECK' END, CASE WHEN relhasrules THEN 'RULE' END, CASE WHEN relhassubclass THEN 'INHERITED' END,
    CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN 'TRIGGER' END)
  FROM pg_class c WHERE c.oid = r.oid`

// An indexRow is a row of indexesSQL.
type indexRow struct {
	Enforced bool
	Whole    bool     // it covers all rows, and only plain columns
	Columns  []string // of its key, in alphabetical order
	Names    []string // its own and its partitions', with their schemas
	Primary  bool
	Long     bool // its entries may exceed the size limit of an index
	Includes bool // it has columns besides its key
}

// indexesSQL reads the indexes of a table r. An entry takes at most a third of a page.
const indexesSQL = `SELECT i.indisunique AND i.indisvalid AND i.indimmediate AS enforced, i.indpred IS NULL AND i.indexprs IS NULL AS whole, i.indisprimary AS primary,
  i.indnatts > i.indnkeyatts AS includes,
  (SELECT sum(CASE WHEN a.attlen > 0 THEN a.attlen WHEN a.atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 0 THEN 4 * a.atttypmod ELSE 10000 END)
    FROM pg_attribute a WHERE a.attrelid = i.indexrelid) > 2500 AS long,
  (SELECT json_agg(a.attname ORDER BY a.attname)
    FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) AS columns,
  (SELECT json_agg(n.nspname || '.' || c.relname)
    FROM (SELECT i.indexrelid UNION SELECT relid FROM pg_partition_tree(i.indexrelid)) p (id)
      JOIN pg_class c ON c.oid = p.id JOIN pg_namespace n ON n.oid = c.relnamespace) AS names
FROM pg_index i
WHERE i.indrelid = r.oid
ORDER BY i.indexrelid`

// readRelations reads tables in one consistent state, in one round trip, whatever their number: weir's entries about
// their columns match their types only if no other run widens a column in between. A table that another session creates
// or replaces meanwhile may be missing: then the flush cannot create it, and reads it again.
func (d *DB) readRelations(ctx context.Context, wanted []sink.TableKey) ([]relation, error) {
	if err := d.askReady(ctx); err != nil {
		return nil, err
	}
	known, s, relations := d.ready, &script{}, make([]relation, len(wanted))
	s.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	lacking := s.addAll(d.lackingSQL(wanted))
	for i, w := range wanted {
		schemaName, rel, err := splitName(w.Name)
		switch {
		case err != nil:
			return nil, err
		case strings.HasPrefix(rel, "weir_"):
			return nil, fmt.Errorf("a table cannot be named %q: such names are reserved for weir", rel)
		}
		relations[i] = relation{Table: schema.Table{Name: w.Name}, ident: identOf(schemaName, rel)}
		s.addAll(strings.NewReplacer("{t}", literal(relations[i].ident), "{own}", d.ownSQL()).Replace(tableSQL))
	}
	namespaces := s.addAll("SELECT nspname FROM pg_namespace")
	ready := s.addAll("SELECT " + d.readySQL())
	if known {
		s.addAll(d.dialect().WritersSQL())
	}
	s.add("COMMIT")
	r, err := d.run(ctx, s)
	if len(r) > lacking && !d.reads {
		err = cmp.Or(d.lacking(r[lacking].rows[0]), err)
	}
	if err != nil {
		return nil, errors.Join(err, d.rollback(ctx))
	}
	if d.takeReady(r[ready].rows[0]); d.ready && !known { // another run has just made weir's tables
		return d.readRelations(ctx, wanted)
	}
	_, err = sink.EachTable(wanted, func(i int, w sink.TableKey) (schema.Table, error) {
		t := &relations[i]
		schemaName, rel, _ := splitName(t.Name)
		var facts *tableFacts
		if row := r[lacking+1+i].rows; len(row) > 0 {
			if err := json.Unmarshal(row[0][0], &facts); err != nil {
				return t.Table, err
			}
			t.ident = identOf(facts.Schema, rel) // that the search path leads to
			t.setID(facts.ID)
			t.facts, t.marks, t.versioned, t.Versioned = facts.Facts, facts.Marks, facts.Versions, facts.Versions != nil
		} else if schemaName != "" && !slices.ContainsFunc(r[namespaces].rows, func(row [][]byte) bool { return string(row[0]) == schemaName }) {
			return t.Table, sink.NoSchemaError{Schema: schemaName, SQL: "CREATE SCHEMA " + ident(schemaName)}
		}
		if known {
			t.Writers = d.dialect().Writers(r[ready+1].rows, d.fullName(t))
		}
		var err error
		relations[i], err = d.relationOf(*t, facts, w.Key)
		return t.Table, err
	})
	return relations, err
}

// relationOf returns a table, from weir's own tables and the catalogs' facts.
func (d *DB) relationOf(t relation, facts *tableFacts, key []string) (relation, error) {
	if facts == nil {
		for _, k := range key {
			if err := caps.CheckName(k); err != nil {
				return t, fmt.Errorf("the key cannot be a column: %w", err)
			}
		}
		return t, nil
	}
	if n := facts.Schema; n == "pg_catalog" || n == "information_schema" || strings.HasPrefix(n, "pg_toast") {
		return t, fmt.Errorf("%q is a table of Postgres' own", t.Name)
	}
	if kind, ok := otherKinds[facts.Kind]; ok {
		return t, fmt.Errorf("%q is a %s, not a table: weir writes only to tables", t.Name, kind)
	}
	if facts.Deferrable != "" && d.opt.IgnoreForeignKeys && !d.reads {
		return t, fmt.Errorf("table %q has the deferrable constraint %q, which the server does not check with --foreign-keys off: replace it by one that is NOT DEFERRABLE", t.Name, facts.Deferrable)
	}
	t.Exists = true
	if err := d.mayMerge(&t, facts); err != nil {
		return t, err
	}
	t.triggers = facts.Triggers
	t.inherited = facts.Kind == "r" && facts.Below
	t.hasSubtables = facts.Kind == "p" || t.inherited
	// The mark of a table that weir created outlives it. The fill factor, which the user may have changed,
	// distinguishes the table from another one of the same name; a dump keeps it.
	ours := t.made != "" && strings.Contains(facts.Options, "fillfactor=")
	missing := func(err error) (relation, error) {
		if !ours {
			return t, err
		}
		blank := relation{Table: schema.Table{Name: t.Name}, ident: t.ident, oid: t.oid}
		blank.Writers = t.Writers
		return blank, sink.KeyError{Err: err}
	}
	ruled := facts.Rules > 0 || facts.Kind == "p"
	for i := range facts.Columns {
		c, more := facts.Columns[i].column()
		t.Columns, t.cols = append(t.Columns, c), append(t.cols, more)
	}
	var primary []string
	if at := slices.IndexFunc(facts.Indexes, func(x indexRow) bool { return x.Primary }); at >= 0 {
		primary = facts.Indexes[at].Columns
	}
	if key == nil {
		if key = primary; key == nil {
			return t, sink.NoKeyError{Table: t.Name}
		}
	}
	var err error
	if t.Key, err = caps.FindKey(&t.Table, key, primary); err != nil {
		return missing(err)
	}
	if t.Appends() && ours && primary != nil {
		return missing(sink.KeyedError(&t.Table, primary))
	}
	t.ForeignKeys, t.Referrers = facts.Keys, facts.Referrers
	other, err := t.readIndexes(facts.Indexes, ours)
	if err != nil {
		return missing(err)
	}
	for _, c := range t.Columns {
		if c.Serial && ours {
			continue
		}
		if c.Default != "" || c.Generated || c.NotNull && !c.Key {
			ruled = true
		}
	}
	t.HasConstraints = ruled || other || facts.Deferrable != ""
	// A table to which others added constraints or triggers is no longer weir's own: new fields do not become columns
	// by themselves.
	t.Made, t.Ruled = ours && !ruled, ours && ruled
	if t.marks != "" {
		err = d.findOwnColumns(&t)
	}
	return t, err
}

// otherKinds are relations that are not tables, by relkind.
var otherKinds = map[string]string{"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index", "c": "composite type"}

// mayMerge returns an error for a table into which a MERGE is impossible, or would not see rows that exist, or whose
// rows a crash removes.
func (d *DB) mayMerge(t *relation, facts *tableFacts) error {
	switch {
	case d.reads:
	case facts.Unlogged:
		return fmt.Errorf("table %q is unlogged: a crash of the server would empty it, though the checkpoint stays: ALTER TABLE %s SET LOGGED", t.Name, t.ident)
	case facts.Policed:
		return fmt.Errorf("row-level security of table %q applies to role %s, which could not see all rows: ALTER ROLE %s BYPASSRLS, or connect as the table's owner",
			t.Name, d.config.User, ident(d.config.User))
	case facts.Rewritten:
		return fmt.Errorf("table %q has rules, and the server refuses a MERGE into it: DROP RULE … ON %s, and VACUUM %[2]s, which forgets that there were rules", t.Name, t.ident)
	}
	return nil
}

// ownSQL returns the columns of tableSQL that come from weir's own tables.
func (d *DB) ownSQL() string {
	if !d.ready {
		return "r.oid::text AS id"
	}
	mark := func(name string) string {
		return fmt.Sprintf("(SELECT value FROM %s.weir_meta WHERE name = %s || %s)", d.schema, literal(name), fmt.Sprintf(fullNameSQL, "r"))
	}
	return d.idSQL("r.oid") + " AS id, " + mark(sink.ColumnsMark("")) + " AS marks, " + mark(sink.VersionsMark("")) + "::json AS versions"
}

// fullNameSQL is a format for the full name of a table, as [DB.fullName] returns it, in a schema n.
const fullNameSQL = `concat('"', replace(n.nspname, '"', '""'), '"."', replace(%s.relname, '"', '""'), '"')`

// idSQL returns SQL for the ID of an existing table, by its OID.
func (d *DB) idSQL(oid string) string {
	return fmt.Sprintf("(SELECT c.oid || coalesce('/' || (SELECT value FROM %s.weir_meta WHERE name = %s || %s)\n"+
		"    || '/' || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attisdropped), '')\n"+
		"  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %s)",
		d.schema, literal(sink.MadeMark("")), fmt.Sprintf(fullNameSQL, "c"), oid)
}

// ownKey is the condition that a constraint k is a foreign key that weir created. A foreign key to a partitioned table
// has another one for each partition.
const ownKey = "k.contype = 'f' AND (left(k.conname, 7) = '" + schema.OwnKeys + "'" +
	" OR EXISTS (SELECT FROM pg_constraint u WHERE u.oid = k.conparentid AND u.conrelid = k.conrelid))"

// keysSQL reads the foreign keys from and to a table r: its own columns, and those that they refer to.
const keysSQL = `SELECT k.conrelid = r.oid AS own, k.conname AS name, quote_ident(n.nspname) || '.' || quote_ident(o.relname) AS table, k.confdeltype = 'c' AS cascade,
  (SELECT json_agg(a.attname ORDER BY u.i)
    FROM unnest(CASE WHEN k.conrelid = r.oid THEN k.conkey ELSE k.confkey END) WITH ORDINALITY u (n, i) JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum = u.n) AS columns,
  (SELECT json_agg(a.attname ORDER BY u.i)
    FROM unnest(k.confkey) WITH ORDINALITY u (n, i) JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n) AS to
FROM pg_constraint k
  JOIN pg_class o ON o.oid = CASE WHEN k.conrelid = r.oid THEN k.confrelid ELSE k.conrelid END
  JOIN pg_namespace n ON n.oid = o.relnamespace
WHERE (k.conrelid = r.oid OR k.confrelid = r.oid) AND k.conparentid = 0 AND ` + ownKey + `
ORDER BY length(k.conname), k.conname`

// setID decodes the result of idSQL: the OID; and if weir created the table, the mark and the number of dropped columns.
func (t *relation) setID(id string) {
	t.ID = id
	parts := strings.Split(id, "/")
	if t.oid = parts[0]; len(parts) > 1 {
		t.made = parts[1]
	}
}

// lackingSQL returns a query for what the role must be granted to write weir's own tables, and tables of a job, and to
// stage rows in a temporary one, and to skip foreign keys.
func (c *client) lackingSQL(wanted []sink.TableKey) string {
	lacks := func(function, of string, privileges ...string) string {
		return fmt.Sprintf("NOT (SELECT bool_and(%s(%s, p)) FROM unnest(ARRAY['%s']) p)", function, of, strings.Join(privileges, "', '"))
	}
	grant := func(schemaName, table, lacks, names string) string {
		return fmt.Sprintf("CASE WHEN to_regclass(%s) IS NULL THEN (SELECT %s FROM pg_namespace WHERE nspname = %s AND NOT has_schema_privilege(oid, 'CREATE'))\n  WHEN %s THEN %s END",
			literal(identOf(schemaName, table)), literal("USAGE, CREATE ON SCHEMA "+ident(schemaName)), literal(schemaName), lacks, literal("SELECT, INSERT, UPDATE, DELETE ON TABLE "+names))
	}
	all := []string{grant(c.current, "weir_meta", fmt.Sprintf("EXISTS (SELECT FROM unnest(string_to_array(%s, ', ')) t WHERE %s)", literal(ownTables),
		lacks("has_table_privilege", literal(c.schema+".")+" || t", "SELECT", "INSERT", "UPDATE", "DELETE")), ownTables)}
	for _, w := range wanted {
		needs := []string{"SELECT", "INSERT", "UPDATE"}
		if w.Key != nil && len(w.Key) == 0 {
			needs = needs[1:2]
		}
		schemaName, table := c.schemaOf(w.Name)
		name := identOf(schemaName, table)
		all = append(all, grant(schemaName, table, lacks("has_any_column_privilege", "to_regclass("+literal(name)+")", needs...), name))
	}
	all = append(all, "CASE WHEN NOT has_database_privilege(current_database(), 'TEMP') THEN 'TEMP ON DATABASE ' || quote_ident(current_database()) END")
	if c.opt.IgnoreForeignKeys {
		all = append(all, "CASE WHEN NOT has_parameter_privilege('session_replication_role', 'SET') THEN 'SET ON PARAMETER session_replication_role' END")
	}
	return "SELECT " + strings.Join(all, ",\n  ")
}

// lacking returns an error with all GRANTs of the answer to lackingSQL, or nil.
func (c *client) lacking(answer [][]byte) error {
	var grants []string
	for _, what := range answer {
		if grant := fmt.Sprintf("GRANT %s TO %s", what, ident(c.config.User)); what != nil && !slices.Contains(grants, grant) {
			grants = append(grants, grant)
		}
	}
	if grants == nil {
		return nil
	}
	also := ""
	if answer[0] != nil {
		also = ", also for the tables that weir keeps (" + ownTables + ")"
	}
	return &sink.Error{Class: sink.Permanent, Reason: "permission",
		Err: fmt.Errorf("%s: role %s lacks permissions%s: %s", c.where(), c.config.User, also, strings.Join(grants, "; "))}
}
