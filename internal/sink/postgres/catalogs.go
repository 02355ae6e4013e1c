package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/schema"
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
		if t.unlogged && !known.unlogged && !d.reads {
			d.opt.Log.Warn(fmt.Sprintf("table %q is unlogged: a crash of the server empties it, and the next runs then fail until --restart reread reads the feed again", t.Name))
		}
		t.FullName = d.fullName(t)
		known.relation, known.key = *t, key
		tables[i] = t.Clone()
	}
	return tables, err
}

// MakeSchema implements [sink.SchemaMaker].
func (d *DB) MakeSchema(ctx context.Context, missing sink.NoSchemaError) error {
	if err := d.connect(ctx); err != nil {
		return err
	}
	_, err := d.query(ctx, missing.SQL)
	if e := pgError(err); e != nil && (e.Code == uniqueViolation || e.Code == duplicateSchema) { // another run has just created it
		return nil
	}
	return d.sinkError(err)
}

// A tableFacts is what the catalogs say about a table.
type tableFacts struct {
	schema string // from the name; "" if it has none
	relation
	first int // first of the statements that query it

	hasSchema   bool
	head        *headRow // nil: the table does not exist
	columns     []columnRow
	indexes     []indexRow
	foreignKeys []keyRow
	replaced    bool // replaced, created or dropped while it was read
}

// A headRow is a row of headSQL.
type headRow struct {
	Schema      string `db:"nspname"`
	Kind        string `db:"relkind"`
	Persistence string `db:"relpersistence"`
	OID         string `db:"oid"`
	Options     string `db:"options"`
	Policed     bool   `db:"policed"` // row-level security applies to this role
	Rewritten   bool   `db:"relhasrules"`
	Remote      string `db:"remote"`   // a foreign table that has rows of it
	Rules       int    `db:"rules"`    // constraints and triggers of others
	Triggers    bool   `db:"triggers"` // on inserts
	Held        string `db:"held"`     // what has a column of the table's type
	Below       bool   `db:"relhassubclass"`
	Marked      bool   `db:"marked"`     // weir_unlogged exists
	Deferrable  string `db:"deferrable"` // a unique or exclusion constraint that triggers check
}

// headSQL reads a table, {t}, without its columns; {unlogged} is the name of weir_unlogged.
const headSQL = `SELECT n.nspname, c.relkind, c.relpersistence, c.oid, c.relhassubclass, c.relhasrules, coalesce(array_to_string(c.reloptions, ','), '') AS options,
  row_security_active(c.oid) AS policed,
  (WITH RECURSIVE below (id) AS (SELECT c.oid UNION SELECT inhrelid FROM pg_inherits JOIN below ON inhparent = id)
    SELECT min(f.relname) FROM below JOIN pg_class f ON f.oid = id AND f.relkind = 'f') AS remote,
  (SELECT count(*) FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal)
    + (SELECT count(*) FROM pg_constraint k WHERE (conrelid = c.oid AND contype IN ('c', 'f', 'x') OR confrelid = c.oid) AND NOT (` + ownKey + `)) AS rules,
  EXISTS (SELECT FROM pg_trigger
    WHERE (tgrelid = c.oid OR tgrelid IN (SELECT relid FROM pg_partition_tree(c.oid))) AND NOT tgisinternal AND tgtype & 4 <> 0) AS triggers,
  (SELECT min(pg_describe_object(p.classid, p.objid, p.objsubid))
    FROM pg_depend p JOIN pg_class u ON u.oid = p.objid AND u.relkind IN ('r', 'p', 'm')
    WHERE p.classid = 'pg_class'::regclass AND p.objsubid > 0 AND p.refclassid = 'pg_type'::regclass
      AND p.refobjid IN (SELECT y.oid FROM pg_type y WHERE y.oid = c.reltype OR y.typelem = c.reltype AND y.typcategory = 'A')) AS held,
  (SELECT min(conname) FROM pg_constraint
    WHERE (conrelid = c.oid OR conrelid IN (SELECT relid FROM pg_partition_tree(c.oid))) AND contype IN ('p', 'u', 'x') AND condeferrable) AS deferrable,
  to_regclass({unlogged}) IS NOT NULL AS marked
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = {t}`

// factsSQL is a subquery for what flushes rely on in a table, {t}, as text: how values are checked and staged, which
// columns the database fills in, which keys are unique, and what else may change or reject a row.
const factsSQL = `SELECT concat_ws('; ',
    (SELECT string_agg(concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        CASE WHEN atthasdef OR typdefaultbin IS NOT NULL THEN 'DEFAULT' END, nullif(attidentity, ''), nullif(attgenerated, ''),
        (SELECT string_agg(enumlabel, '|' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid IN (y.oid, typbasetype))), ', ' ORDER BY attnum)
      FROM pg_attribute JOIN pg_type y ON y.oid = atttypid WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped),
    (SELECT string_agg('UNIQUE ' || indkey::text, ', ' ORDER BY indkey::text) FROM pg_index
      WHERE indrelid = c.oid AND indisunique AND indisvalid AND indimmediate AND indpred IS NULL AND indexprs IS NULL),
    CASE WHEN relchecks > 0 THEN 'CHECK' END, CASE WHEN relhasrules THEN 'RULE' END, CASE WHEN relhassubclass THEN 'INHERITED' END,
    CASE WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN 'TRIGGER' END,
    CASE WHEN row_security_active(c.oid) THEN 'ROW SECURITY' END)
  FROM pg_class c WHERE c.oid = {t}`

// An indexRow is a row of indexesSQL.
type indexRow struct {
	Unique  bool     `db:"enforced"`
	Whole   bool     `db:"whole"`   // it covers all rows, and only plain columns
	Columns []string `db:"columns"` // of its key, in alphabetical order
	Names   []string `db:"names"`   // its own and its partitions', with their schemas
	Primary bool     `db:"indisprimary"`
	Long    bool     `db:"long"`     // its entries may exceed the size limit of an index
	More    bool     `db:"includes"` // it has columns besides its key
}

// indexesSQL reads the indexes of a table, {t}. An entry takes at most a third of a page.
const indexesSQL = `SELECT i.indisunique AND i.indisvalid AND i.indimmediate AS enforced, i.indpred IS NULL AND i.indexprs IS NULL AS whole, i.indisprimary,
  i.indnatts > i.indnkeyatts AS includes,
  (SELECT sum(CASE WHEN a.attlen > 0 THEN a.attlen WHEN a.atttypid IN ('varchar'::regtype, 'bpchar'::regtype) AND a.atttypmod > 0 THEN 4 * a.atttypmod ELSE 10000 END)
    FROM pg_attribute a WHERE a.attrelid = i.indexrelid) > 2500 AS long,
  (SELECT string_agg(a.attname, E'\x01' ORDER BY a.attname)
    FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) AS columns,
  (SELECT string_agg(n.nspname || '.' || c.relname, E'\x01')
    FROM (SELECT i.indexrelid UNION SELECT relid FROM pg_partition_tree(i.indexrelid)) p (id)
      JOIN pg_class c ON c.oid = p.id JOIN pg_namespace n ON n.oid = c.relnamespace) AS names
FROM pg_index i
WHERE i.indrelid = {t}
ORDER BY i.indexrelid`

// readTries is how often tables are read while others keep replacing them.
const readTries = 10

// readRelations reads tables in one consistent state: weir's entries about their columns match their types only if no
// other run widens a column in between. It takes two round trips, whatever the number of tables. A name resolves to the
// current table, not the one in the snapshot: if a table is dropped meanwhile, all are read again.
func (d *DB) readRelations(ctx context.Context, wanted []sink.TableKey) ([]relation, error) {
	for range readTries {
		facts, err := d.readFacts(ctx, wanted)
		if err == nil && slices.ContainsFunc(facts, func(l tableFacts) bool { return l.replaced }) {
			if err := d.rollback(ctx); err != nil {
				return nil, err
			}
			continue
		}
		if err == nil {
			err = d.readMarks(ctx, facts)
		}
		relations := make([]relation, len(wanted))
		if err != nil {
			return relations, errors.Join(err, d.rollback(ctx))
		}
		_, err = sink.EachTable(wanted, func(i int, w sink.TableKey) (schema.Table, error) {
			var err error
			relations[i], err = d.relationOf(&facts[i], w.Key)
			return relations[i].Table, err
		})
		return relations, err
	}
	return nil, &sink.Error{Class: sink.Transient, Reason: "locked", Err: errors.New("another session keeps dropping or replacing a table while it is read")}
}

// readFacts queries the catalogs for tables, and leaves the transaction open.
func (d *DB) readFacts(ctx context.Context, wanted []sink.TableKey) (facts []tableFacts, err error) {
	facts = make([]tableFacts, len(wanted))
	s := &script{}
	s.add("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	for i := range wanted {
		if facts[i], err = d.askCatalogs(s, wanted[i].Name); err != nil {
			return nil, err
		}
	}
	// Last: the server caches that weir's tables are missing until it reads the catalogs. Otherwise a table that
	// another run has just created, with weir's tables, would not seem to be weir's.
	ready := s.add("SELECT %s", d.readySQL())
	r, err := d.run(ctx, s)
	if err != nil {
		return nil, err
	}
	d.takeReady(r[ready].rows[0])
	for i := range facts {
		facts[i].readAnswer(r)
	}
	return facts, nil
}

// askCatalogs adds statements that read a table from the catalogs.
func (d *DB) askCatalogs(s *script, name string) (l tableFacts, err error) {
	l = tableFacts{relation: relation{Table: schema.Table{Name: name}}, first: len(s.statements)}
	rel := ""
	if l.schema, rel, err = splitName(name); err != nil {
		return l, err
	}
	if strings.HasPrefix(rel, "weir_") {
		return l, fmt.Errorf("a table cannot be named %q: such names are reserved for weir", rel)
	}
	l.ident = identOf(l.schema, rel)
	for _, q := range []string{headSQL, columnsSQL, indexesSQL,
		"SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = coalesce(nullif(" + literal(l.schema) + ", ''), current_schema()))",
		keysSQL, "SELECT {t}::oid", factsSQL} {
		s.addAll(strings.NewReplacer("{t}", "to_regclass("+literal(l.ident)+")", "{unlogged}", literal(d.schema+".weir_unlogged")).Replace(q))
	}
	return l, nil
}

// readAnswer reads the results.
func (l *tableFacts) readAnswer(r []result) {
	r = r[l.first:]
	l.columns, l.indexes, l.foreignKeys = structs[columnRow](r[1]), structs[indexRow](r[2]), structs[keyRow](r[4])
	l.hasSchema = string(r[3].rows[0][0]) == "t"
	if found := structs[headRow](r[0]); len(found) > 0 {
		l.head = &found[0]
		_, rel, _ := splitName(l.Name)
		l.ident = identOf(l.head.Schema, rel) // that the search path leads to
		l.oid, l.unlogged = l.head.OID, l.head.Persistence == "u"
		l.marked = l.unlogged && l.head.Marked
	}
	l.replaced = string(r[5].rows[0][0]) != l.oid
	for _, row := range r[6].rows {
		l.facts = string(row[0])
	}
}

// relationOf returns a table, from the catalogs' facts and weir's own tables.
func (d *DB) relationOf(l *tableFacts, key []string) (relation, error) {
	t, err := l.relation, error(nil)
	if l.head == nil {
		if !l.hasSchema {
			return t, sink.NoSchemaError{Schema: l.schema, SQL: "CREATE SCHEMA " + ident(l.schema)}
		}
		for _, k := range key {
			if err := caps.CheckName(k); err != nil {
				return t, fmt.Errorf("the key cannot be a column: %w", err)
			}
		}
		return t, nil
	}
	head := l.head
	if n := head.Schema; n == "pg_catalog" || n == "information_schema" || strings.HasPrefix(n, "pg_toast") {
		return t, fmt.Errorf("%q is a table of Postgres' own", t.Name)
	}
	switch head.Kind {
	case "r", "p":
	default:
		kinds := map[string]string{"v": "view", "m": "materialized view", "f": "foreign table", "S": "sequence", "i": "index", "c": "composite type"}
		return t, fmt.Errorf("%q is a %s, not a table: weir writes only to tables", t.Name, kinds[head.Kind])
	}
	if head.Deferrable != "" && d.opt.IgnoreForeignKeys && !d.reads {
		return t, fmt.Errorf("table %q has the deferrable constraint %q, which the server does not check with --foreign-keys off: replace it by one that is NOT DEFERRABLE", t.Name, head.Deferrable)
	}
	t.Exists = true
	if err := d.mayMerge(&t, head); err != nil {
		return t, err
	}
	t.triggers = head.Triggers
	t.inherited = head.Kind == "r" && head.Below
	t.hasSubtables = head.Kind == "p" || t.inherited
	// The mark of a table that weir created outlives it. The fill factor, which the user may have changed,
	// distinguishes the table from another one of the same name; a dump keeps it.
	ours := t.made != "" && strings.Contains(head.Options, "fillfactor=")
	missing := func(err error) (relation, error) {
		if !ours {
			return t, err
		}
		blank := relation{Table: schema.Table{Name: t.Name}, ident: t.ident, oid: t.oid}
		blank.Writers = t.Writers
		return blank, sink.KeyError{Err: err}
	}
	ruled := head.Rules > 0 || head.Kind == "p"
	for i := range l.columns {
		c, more := l.columns[i].column()
		more.held = cmp.Or(more.held, head.Held)
		t.Columns, t.cols = append(t.Columns, c), append(t.cols, more)
	}
	var primary []string
	if at := slices.IndexFunc(l.indexes, func(x indexRow) bool { return x.Primary }); at >= 0 {
		primary = l.indexes[at].Columns
	}
	if key == nil {
		if key = primary; key == nil {
			return t, sink.NoKeyError{Table: t.Name}
		}
	}
	if t.Key, err = caps.FindKey(&t.Table, key, primary); err != nil {
		return missing(err)
	}
	if t.Appends() && ours && primary != nil {
		return missing(sink.KeyedError(&t.Table, primary))
	}
	t.readKeys(l.foreignKeys)
	other, err := t.readIndexes(l.indexes, ours)
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
	t.HasConstraints = ruled || other || head.Deferrable != ""
	// A table to which others added constraints or triggers is no longer weir's own: new fields do not become columns
	// by themselves.
	t.Made, t.Ruled = ours && !ruled, ours && ruled
	if t.marks != "" {
		err = d.findOwnColumns(&t)
	}
	return t, err
}

// mayMerge returns an error for a table into which a MERGE is impossible, or would not see rows that exist.
func (d *DB) mayMerge(t *relation, head *headRow) error {
	switch {
	case d.reads:
	case head.Policed:
		return fmt.Errorf("row-level security of table %q applies to role %s, which could not see all rows: ALTER ROLE %s BYPASSRLS, or connect as the table's owner",
			t.Name, d.config.User, ident(d.config.User))
	case head.Rewritten:
		return fmt.Errorf("table %q has rules, and the server refuses a MERGE into it: DROP RULE … ON %s, and VACUUM %[2]s, which forgets that there were rules", t.Name, t.ident)
	case head.Remote != "":
		return fmt.Errorf("rows of table %q may be in foreign table %q, and the server refuses a MERGE into that", t.Name, head.Remote)
	}
	return nil
}

// readMarks reads weir's entries about tables, and ends the transaction.
func (d *DB) readMarks(ctx context.Context, facts []tableFacts) error {
	s := &script{}
	var marks, ids []string
	for i := range facts {
		t := &facts[i].relation
		full := d.fullName(t)
		marks = append(marks, literal(sink.ColumnsMark(full)), literal(sink.VersionsMark(full)))
		if t.ID = t.oid; facts[i].head != nil {
			ids = append(ids, "SELECT "+d.idSQL(t, t.oid, t.marked))
		}
	}
	if d.ready && len(facts) > 0 {
		s.add("SELECT name, value FROM %s.weir_meta WHERE name IN (%s)", d.schema, strings.Join(marks, ", "))
		s.addAll(d.dialect().WritersSQL())
		s.addAll(ids...)
	}
	s.add("COMMIT")
	r, err := d.run(ctx, s)
	if err != nil || len(r) == 1 {
		return err
	}
	meta := map[string]string{}
	for _, row := range r[0].rows {
		meta[string(row[0])] = string(row[1])
	}
	id := 2
	for i := range facts {
		t := &facts[i].relation
		full := d.fullName(t)
		if t.Writers = d.dialect().Writers(r[1].rows, full); facts[i].head == nil {
			continue
		}
		_, t.Versioned = meta[storable(sink.VersionsMark(full))]
		t.marks = meta[storable(sink.ColumnsMark(full))]
		t.setID(string(r[id].rows[0][0]))
		id++
	}
	return nil
}

// idSQL returns SQL for the ID of an existing table, by its OID. marked says that weir_unlogged exists and may have a
// marker for it.
func (d *DB) idSQL(t *relation, oid string, marked bool) string {
	marker := ""
	if marked {
		marker = fmt.Sprintf(" || coalesce((SELECT '/' || mark FROM %s.weir_unlogged WHERE tbl = c.oid), '')", d.schema)
	}
	return fmt.Sprintf("(SELECT c.oid || coalesce('/' || (SELECT value FROM %s.weir_meta WHERE name = %s)\n"+
		"    || '/' || (SELECT count(*) FROM pg_attribute WHERE attrelid = c.oid AND attisdropped), '')%s\n  FROM pg_class c WHERE c.oid = %s)",
		d.schema, literal(sink.MadeMark(d.fullName(t))), marker, oid)
}

// markUnlogged adds statements that leave a marker, which a crash removes together with the rows of an unlogged table.
func (d *DB) markUnlogged(s *script, t *relation) {
	if !t.marked { // CREATE IF NOT EXISTS would need the privilege even if it exists
		s.add("CREATE UNLOGGED TABLE IF NOT EXISTS %s.weir_unlogged (tbl oid PRIMARY KEY, mark text NOT NULL)", d.schema)
	}
	s.add("INSERT INTO %s.weir_unlogged (tbl, mark) VALUES (%s, %s) ON CONFLICT DO NOTHING", d.schema, t.oid, literal(sink.NewTableID()))
}

// keepMark returns SQL that writes a mark.
func (d *DB) keepMark(name, value string) string {
	return fmt.Sprintf("INSERT INTO %s.weir_meta (name, value) VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		d.schema, literal(name), literal(value))
}

// setID decodes the result of idSQL: the OID; if weir created the table, the mark and the number of dropped columns;
// and the marker, if there is one.
func (t *relation) setID(id string) {
	t.ID = id
	parts := strings.Split(id, "/")
	if t.oid = parts[0]; len(parts) > 2 {
		t.made = parts[1]
	}
	if len(parts)%2 == 0 {
		t.marker = parts[len(parts)-1]
	}
}
