package postgres

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A relation is a table as in the database.
type relation struct {
	schema.Table
	ident        string   // its quoted name, with its schema
	cols         []column // in the order of Table.Columns, what else is known about them
	hasSubtables bool     // other tables may have rows of it: partitions, or inheriting tables
	triggers     bool     // it has insert triggers, which may change the row
	// inherited: inheriting tables may have rows with its keys, which its unique index does not know.
	inherited bool
	oid       string
	// facts is what flushes rely on: see [factsSQL]. "" if it was not read since the flush that created or altered it.
	facts string
	// keyIndexes are the indexes over the key, and its partitions', as SCHEMA.NAME; nil if they were not read since the
	// table was created.
	keyIndexes []string
	made       string   // the ID that weir gave it when it created it; "" if it did not
	marks      string   // of weir's columns, "" if there are none
	versioned  []string // the columns whose versions are stored, by their numbers there; nil: none ever was
}

// A column has the facts about a column that only SQL needs.
type column struct {
	domain   bool
	staged   string // its type in the staging table; for a domain, the base type
	image    string // a format for an expression that makes equality exact
	identity bool   // the server generates its values
	always   bool   // even if an INSERT names it, unless it says OVERRIDING SYSTEM VALUE
	held     string // what depends on it, so its type cannot be changed; "" if nothing does
}

// tableName matches NAME and SCHEMA.NAME, each part optionally in double quotes.
var tableName = regexp.MustCompile(`^(?:("(?:[^"]|"")+"|[^".][^.]*)\.)?("(?:[^"]|"")+"|[^".][^.]*)$`)

func splitName(name string) (schemaName, table string, err error) {
	parts := tableName.FindStringSubmatch(name)
	if parts == nil || strings.IndexByte(name, 0) >= 0 {
		return "", "", fmt.Errorf("the table's name %q is not TABLE or SCHEMA.TABLE: write double quotes around a part that contains a dot or a quote", name)
	}
	parts = parts[1:]
	for i, p := range parts {
		if p != "" && p[0] == '"' {
			parts[i] = strings.ReplaceAll(p[1:len(p)-1], `""`, `"`)
		}
		if len(parts[i]) > maxName {
			return "", "", fmt.Errorf("the name %q has %d bytes: Postgres would truncate it to %d", parts[i], len(parts[i]), maxName)
		}
	}
	return parts[0], parts[1], nil
}

// schemaOf returns the schema for a table, and its name there.
func (c *client) schemaOf(name string) (schemaName, table string) {
	schemaName, table, _ = splitName(name)
	if schemaName == "" {
		schemaName = c.current
	}
	return schemaName, table
}

// identOf returns a table's quoted name, from its parts.
func identOf(schemaName, table string) string {
	if schemaName == "" {
		return ident(table)
	}
	return ident(schemaName) + "." + ident(table)
}

// A columnRow is a row of columnsSQL.
type columnRow struct {
	Name, Decl          string
	NotNull             bool
	Identity, Generated string
	Default             string
	Kind                string // of the type
	Staged              string // this and the following fields describe the base type, for a domain
	Type                string // "" if it is not a type of Postgres' own
	Category            string
	Modifier            int
	CollationName       string
	Collation           string // in SQL
	Loose               bool   // the collation calls different texts equal
	Labels              []string
	Held                string // what depends on it
}

// columnsSQL reads the columns of a table r. pg_get_serial_sequence would fail if the table is dropped meanwhile.
const columnsSQL = `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS decl, a.attnotnull AS notnull, a.attidentity AS identity, a.attgenerated AS generated,
  coalesce(pg_get_expr(f.adbin, f.adrelid), pg_get_expr(t.typdefaultbin, 0)) AS default, t.typtype AS kind,
  CASE WHEN b.oid IS NULL THEN format_type(t.oid, a.atttypmod) ELSE format_type(b.oid, t.typtypmod) END AS staged,
  CASE WHEN n.nspname = 'pg_catalog' THEN coalesce(b.typname, t.typname) END AS type, coalesce(b.typcategory, t.typcategory) AS category,
  CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END AS modifier,
  l.collname AS collationname, quote_ident(ln.nspname) || '.' || quote_ident(l.collname) AS collation, NOT l.collisdeterministic AS loose,
  (SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = coalesce(b.oid, t.oid)) AS labels,
  (SELECT min(pg_describe_object(p.classid, p.objid, p.objsubid))
    FROM pg_depend p
      LEFT JOIN pg_index i ON p.classid = 'pg_class'::regclass AND i.indexrelid = p.objid
      LEFT JOIN pg_class s ON p.classid = 'pg_class'::regclass AND s.oid = p.objid AND s.relkind = 'S'
      LEFT JOIN pg_constraint k ON p.classid = 'pg_constraint'::regclass AND k.oid = p.objid
    WHERE p.refclassid = 'pg_class'::regclass AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND s.oid IS NULL
      AND (i.indexrelid IS NULL OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
      AND (k.oid IS NULL OR k.contype NOT IN ('p', 'u', 'n') AND NOT (` + ownKey + `))
      AND (p.classid <> 'pg_attrdef'::regclass OR p.objid IS DISTINCT FROM f.oid) AND p.classid <> 'pg_statistic_ext'::regclass) AS held
FROM pg_attribute a
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
  JOIN pg_namespace n ON n.oid = coalesce(b.typnamespace, t.typnamespace)
  LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
  LEFT JOIN pg_collation l ON l.oid = a.attcollation
  LEFT JOIN pg_namespace ln ON ln.oid = l.collnamespace
WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum`

// column converts the row into a column.
func (row *columnRow) column() (c schema.Column, more column) {
	c = schema.Column{Name: row.Name, Decl: row.Decl, NotNull: row.NotNull, Default: row.Default, Generated: row.Identity == "a" || row.Generated != ""}
	more = column{domain: row.Kind == "d", staged: row.Staged, image: "%s", identity: row.Identity != "", always: row.Identity == "a", held: strings.TrimPrefix(row.Held, "rule _RETURN on ")}
	if row.Identity == "d" {
		c.Default = schema.SequenceDefault
	}
	if row.CollationName != "" && row.CollationName != "default" {
		more.staged += " COLLATE " + row.Collation
	}
	c.Judged = more.domain // it may have a CHECK
	c.Timed = slices.Contains(timeTypes, strings.TrimPrefix(row.Type, "_"))
	text := func() {
		c.Type = schema.Text
		if row.Loose {
			c.Collation, more.image = collation(row.CollationName), `(%s COLLATE "C")`
		}
	}
	switch row.Type {
	case "bool":
		c.Type, c.Labels = schema.Bool, []string{"true", "false"}
	case "int2", "int4", "int8":
		c.Type, c.Size = schema.Int, int(row.Type[3]-'0')
	case "float4", "float8":
		c.Type, c.Size = schema.Real, int(row.Type[5]-'0')
		more.image = "pg_catalog." + row.Type + "send(%s)"
	case "numeric":
		c.Type, more.image = schema.Number, "pg_catalog.numeric_send(%s)"
		if row.Modifier >= 0 {
			c.Judged, c.Precision, c.Scale = true, (row.Modifier-4)>>16, (row.Modifier-4)&0x7ff^0x400-0x400
		}
	case "text":
		text()
		c.HoldsTime = true
	case "varchar", "bpchar":
		if text(); row.Modifier > 4 {
			c.Size = row.Modifier - 4
		}
		if c.HoldsTime = c.Size == 0 || c.Size >= len(stampFormat); row.Type == "bpchar" {
			c.Collation = padded
		}
	case "json", "jsonb":
		c.Type, more.image = schema.JSON, "(%s)::text"
	case "uuid":
		c.Type = schema.UUID
	case "date":
		c.Type, c.Judged = schema.Day, true
	case "timestamptz":
		c.Type, c.Judged, c.HoldsTime = schema.Instant, true, true
	default:
		more.image, c.HoldsTime = "(%s)::text", row.Type == "timestamp"
		switch {
		case row.Labels != nil && row.Kind != "d": // operators of enums do not accept a domain
			c.Type, c.Labels, more.image = schema.Enum, row.Labels, "%s"
		case row.Category == "A":
			if c.Type, c.Judged = schema.Array, true; row.Type == "_json" || row.Type == "_jsonb" {
				c.Type = schema.JSONs
			}
		case row.Type == "bit", row.Type == "varbit":
			if c.Type, c.Judged = schema.Bits, true; row.Type == "bit" {
				c.Size = row.Modifier
			}
		default:
			c.Type, c.Judged, c.Binary = schema.External, true, row.Decl == "bytea"
		}
	}
	return c, more
}

// timeTypes are the types of times. The type of an array has an underscore before the name.
var timeTypes = []string{"date", "time", "timetz", "timestamp", "timestamptz", "interval"}

// A collation treats some different texts as equal. For most, weir does not know which.
type collation string

// padded is the comparison of char(n), which ignores trailing blanks.
const padded collation = "padded"

// Form implements [schema.Collation].
func (c collation) Form(text []byte) []byte {
	if c == padded {
		return bytes.TrimRight(text, " ")
	}
	return text
}

func (c collation) String() string { return string(c) }

// readIndexes marks the key's columns, returns an error unless the database enforces that the key is unique, and finds
// an integer column that the database generates. It reports whether another index can refuse a row; in a table of
// weir's, that column's index cannot.
func (t *relation) readIndexes(indexes []indexRow, ours bool) (other bool, err error) {
	names := t.KeyColumns()
	sorted := slices.Sorted(slices.Values(names))
	unique := false
	for i := range indexes {
		x := &indexes[i]
		if x.Enforced && x.Whole && slices.Equal(x.Columns, sorted) {
			unique = true
			t.keyIndexes = append(t.keyIndexes, x.Names...)
			other = other || x.Includes // the fold knows how long the key may be
		} else if !t.serial(x) || !ours {
			other = other || x.Enforced || !x.Whole || x.Long
		}
	}
	for _, k := range t.Key {
		c := &t.Columns[k]
		c.Key = true
		switch {
		case t.cols[k].always: // a message's key is written all the same
			c.Generated, c.Default = false, schema.SequenceDefault
		case c.Generated:
			return false, sink.KeyColumnError(&t.Table, c, sink.Computed)
		case c.Type == schema.External || c.Type == schema.Bits || c.Type == schema.Array || c.Type == schema.JSON || c.Type == schema.JSONs:
			return false, sink.KeyColumnError(&t.Table, c, "is "+c.Decl+": weir could not tell which of its values are equal")
		case (c.Type == schema.Number || c.Type == schema.Instant) && strings.Contains(c.Decl, "(") || c.Type == schema.Real && c.Size == 4:
			return false, sink.KeyColumnError(&t.Table, c, "is "+c.Decl+", which rounds: weir could not tell which of its values become equal")
		case c.Collation != nil && c.Collation != padded:
			return false, sink.KeyColumnError(&t.Table, c, "has the collation "+c.Collation.String()+", which calls different texts equal: weir could not tell which")
		}
	}
	if !unique && !t.Appends() {
		_, rel, _ := splitName(t.Name)
		return false, sink.NotUniqueError(&t.Table, ident(rel[:min(len(rel), maxName-4)]+"_key"), t.ident, sink.NameList(t.KeyColumns(), ident))
	}
	return other, nil
}

// serial records that an index belongs to a database-generated integer column, if it does.
func (t *relation) serial(x *indexRow) bool {
	at := slices.IndexFunc(t.Columns, func(c schema.Column) bool { return len(x.Columns) == 1 && c.Name == x.Columns[0] })
	if !x.Enforced || !x.Whole || at < 0 || slices.Contains(t.Key, at) {
		return false
	}
	c := &t.Columns[at]
	c.Serial = c.Type == schema.Int && (t.cols[at].identity || strings.HasPrefix(c.Default, "nextval("))
	return c.Serial
}

// column returns a column of the table aliased t.
func (t *relation) column(at int) string { return "t." + ident(t.Columns[at].Name) }

// declared are the types of columns that weir creates; all others are text.
var declared = map[schema.Type]string{schema.Bool: "boolean", schema.Int: "bigint", schema.Real: "double precision", schema.Number: "numeric",
	schema.JSON: "jsonb", schema.Instant: "timestamp with time zone", schema.Day: "date", schema.UUID: "uuid", schema.Bytes: "bytea"}

// declare returns the type for a column that weir creates.
func declare(c *schema.Column) string {
	switch {
	case c.Decl != "" && !c.Own: // like a column of others
		return c.Decl
	case c.Type == schema.Number && c.Precision > 0:
		return fmt.Sprintf("numeric(%d,%d)", c.Precision, c.Scale)
	}
	return cmp.Or(declared[c.Type], "text")
}

// made returns the driver's facts about a column that weir creates.
func made(c *schema.Column) column {
	m := column{staged: declare(c), image: "%s"}
	switch c.Type {
	case schema.Real:
		m.image = "pg_catalog.float8send(%s)"
	case schema.Number:
		m.image = "pg_catalog.numeric_send(%s)"
	case schema.JSON, schema.Bytes:
		m.image = "(%s)::text"
	}
	return m
}

// isPending reports whether a new column is not created yet: its type is unknown, because all values were null, or the
// database has no such type.
func isPending(c *schema.Column) bool {
	return c.New && c.Type == schema.Any || !c.Stored()
}

// fillFactor leaves room in a page for new versions of its rows, so they need no new index entries.
const fillFactor = 90

// stampFormat is the format of stamps. A timestamp without time zone stores them in UTC, because it ignores the zone.
const stampFormat = "2006-01-02 15:04:05.000+00"

// Create returns the statement with which weir would create a table.
func Create(t *schema.Table) string {
	var definitions []string
	for i := range t.Columns {
		if c := &t.Columns[i]; !isPending(c) {
			sql := definition(c)
			if c.Key && t.Surrogate() >= 0 { // the primary key implies it
				sql += " NOT NULL"
			}
			definitions = append(definitions, sql)
		}
	}
	return sink.CreateTable(named(t.Name), definitions, sink.Constraints(t, ident, named), fmt.Sprintf(" WITH (fillfactor = %d)", fillFactor))
}

func definition(c *schema.Column) string {
	if c.Serial && c.Generated {
		return ident(c.Name) + " bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	return ident(c.Name) + " " + declare(c)
}

// named returns a quoted table name, from the user's spelling.
func named(table string) string {
	schemaName, rel, _ := splitName(table)
	return identOf(schemaName, rel)
}

// Plan implements [sink.Driver].
func Plan(want *schema.Table) []string {
	return sink.Plan(want, Create(want), func(c *schema.Column) string {
		if isPending(c) {
			return ""
		}
		return "ALTER TABLE " + named(want.Name) + " ADD COLUMN " + definition(c)
	})
}
