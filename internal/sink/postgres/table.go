package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A relation is a table as the database has it.
type relation struct {
	schema.Table
	ident string   // its name in SQL, with its schema
	cols  []column // what there is to know beside Table.Columns, in their order
	// policed tells that the table has rules or row-level security, which a COPY
	// passes by or may not pass.
	policed bool
	// below tells that other tables may have rows of it: partitions, or tables that inherit from it.
	below bool
	// triggers tells that it has triggers of inserts, which may change the row.
	triggers bool
	// hides tells that row-level security may keep rows from this user's sight.
	hides bool
	oid   string
	// keyIndexes are the indexes over the key, and those of its partitions, as SCHEMA.NAME; nil where they were not read since the
	// table was made.
	keyIndexes []string
	// marker is what weir_unlogged has of an unlogged table: it goes where the table's rows
	// go, when the server crashes. marked tells that weir_unlogged exists.
	unlogged, marked bool
	marker           string
	made             string // the ID that weir gave it when it made it, "" where it did not
	marks            string // what weir keeps of the columns that are its own, "" where there is nothing
}

// A column's facts that only SQL needs.
type column struct {
	staged string // its type in the staging table, a domain's being what it is based on
	image  string // a format for an expression whose equality is that of every digit and letter
	// identity tells that the server generates its values.
	identity bool
	held     string // what hangs on it, so that its type cannot be changed; "" for nothing
}

// splitName reads the name of a table: NAME, SCHEMA.NAME, each part perhaps in
// double quotes.
func splitName(name string) (schemaName, table string, err error) {
	var parts []string
	for rest := name; ; {
		var part strings.Builder
		quoted := strings.HasPrefix(rest, `"`)
		if quoted {
			rest = rest[1:]
			for {
				at := strings.IndexByte(rest, '"')
				if at < 0 {
					return "", "", fmt.Errorf("the table's name %s has a quote without an end", name)
				}
				part.WriteString(rest[:at])
				rest = rest[at+1:]
				if !strings.HasPrefix(rest, `"`) {
					break
				}
				part.WriteByte('"')
				rest = rest[1:]
			}
		} else {
			at := strings.IndexByte(rest, '.')
			if at < 0 {
				at = len(rest)
			}
			part.WriteString(rest[:at])
			rest = rest[at:]
		}
		parts = append(parts, part.String())
		if rest == "" {
			break
		}
		if rest[0] != '.' {
			return "", "", fmt.Errorf("the table's name %s continues after a closing quote", name)
		}
		rest = rest[1:]
	}
	for _, p := range parts {
		if p == "" || strings.IndexByte(p, 0) >= 0 {
			return "", "", fmt.Errorf("the table's name %q has an empty part or a NUL; write TABLE or SCHEMA.TABLE", name)
		}
		if len(p) > maxName {
			return "", "", fmt.Errorf("the name %q has %d bytes: Postgres takes %d, and would cut it off", p, len(p), maxName)
		}
	}
	switch len(parts) {
	case 1:
		return "", parts[0], nil
	case 2:
		return parts[0], parts[1], nil
	}
	return "", "", fmt.Errorf("the table's name %q has %d parts: TABLE or SCHEMA.TABLE is wanted, a part with a dot in it in double quotes", name, len(parts))
}

// schemaOf returns the schema that a table is made in, and its name there.
func (c *client) schemaOf(name string) (schemaName, table string) {
	schemaName, table, _ = splitName(name)
	if schemaName == "" {
		schemaName = c.current
	}
	return schemaName, table
}

// identOf is a table's name in SQL, by its parts.
func identOf(schemaName, table string) string {
	if schemaName == "" {
		return ident(table)
	}
	return ident(schemaName) + "." + ident(table)
}

// primaryKey returns the columns of the primary key, of the indexes of a table; nil: there is none.
func primaryKey(indexes result) []string {
	for _, row := range indexes.rows {
		if string(row[len(row)-1]) == "t" {
			return strings.Split(string(row[2]), "\x01")
		}
	}
	return nil
}

// columnsSQL reads a table's columns; a domain's are those of the type that it
// is based on. pg_get_serial_sequence would fail where the table is dropped meanwhile.
const columnsSQL = `SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS decl, a.attnotnull, a.attidentity, a.attgenerated,
 coalesce(pg_get_expr(f.adbin, f.adrelid), pg_get_expr(t.typdefaultbin, 0)) AS initial, t.typtype,
 CASE WHEN b.oid IS NULL THEN format_type(t.oid, a.atttypmod) ELSE format_type(b.oid, t.typtypmod) END AS staged,
 CASE WHEN n.nspname = 'pg_catalog' THEN coalesce(b.typname, t.typname) END AS type, coalesce(b.typcategory, t.typcategory) AS category,
 CASE WHEN b.oid IS NULL THEN a.atttypmod ELSE t.typtypmod END AS modifier,
 l.collname, quote_ident(ln.nspname) || '.' || quote_ident(l.collname) AS collation, l.collisdeterministic,
 (SELECT string_agg(e.enumlabel, E'\x01' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = coalesce(b.oid, t.oid)) AS labels,
 (SELECT quote_ident(sn.nspname) || '.' || quote_ident(s.relname) FROM pg_depend p JOIN pg_class s ON s.oid = p.objid JOIN pg_namespace sn ON sn.oid = s.relnamespace
  WHERE a.attidentity = 'd' AND p.classid = 'pg_class'::regclass AND p.refclassid = 'pg_class'::regclass AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND p.deptype = 'i') AS sequence,
 (SELECT min(pg_describe_object(p.classid, p.objid, p.objsubid)) FROM pg_depend p
  LEFT JOIN pg_index i ON p.classid = 'pg_class'::regclass AND i.indexrelid = p.objid
  LEFT JOIN pg_class s ON p.classid = 'pg_class'::regclass AND s.oid = p.objid AND s.relkind = 'S'
  LEFT JOIN pg_constraint k ON p.classid = 'pg_constraint'::regclass AND k.oid = p.objid
  WHERE p.refclassid = 'pg_class'::regclass AND p.refobjid = a.attrelid AND p.refobjsubid = a.attnum AND s.oid IS NULL
  AND (i.indexrelid IS NULL OR i.indexprs IS NOT NULL OR i.indpred IS NOT NULL) AND (k.oid IS NULL OR k.contype NOT IN ('p', 'u', 'n') AND NOT (` + ownKey + `))
  AND (p.classid <> 'pg_attrdef'::regclass OR p.objid IS DISTINCT FROM f.oid) AND p.classid <> 'pg_statistic_ext'::regclass) AS held
 FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
 LEFT JOIN pg_type b ON t.typtype = 'd' AND b.oid = t.typbasetype
 JOIN pg_namespace n ON n.oid = coalesce(b.typnamespace, t.typnamespace)
 LEFT JOIN pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
 LEFT JOIN pg_collation l ON l.oid = a.attcollation LEFT JOIN pg_namespace ln ON ln.oid = l.collnamespace
 WHERE a.attrelid = `

// readColumn turns a row of columnsSQL into a column.
func readColumn(row map[string]string) (c schema.Column, more column) {
	c = schema.Column{Name: row["attname"], Decl: row["decl"], NotNull: row["attnotnull"] == "t", Default: row["initial"], Generated: row["attidentity"] == "a" || row["attgenerated"] != ""}
	more = column{staged: row["staged"], image: "%s", identity: row["attidentity"] != "", held: strings.TrimPrefix(row["held"], "rule _RETURN on ")}
	if row["attidentity"] == "d" {
		c.Default = "nextval(" + literal(row["sequence"]) + "::regclass)"
	}
	if row["collname"] != "" && row["collname"] != "default" {
		more.staged += " COLLATE " + row["collation"]
	}
	c.Judged = row["typtype"] == "d" // a domain may have a CHECK
	text := func() {
		c.Type = schema.Text
		if row["collisdeterministic"] == "f" { // equal is not the same
			c.Collation, more.image = row["collname"], `(%s COLLATE "C")`
		}
	}
	_, isEnum := row["labels"]
	switch mod := number([]byte(row["modifier"])); row["type"] {
	case "bool":
		c.Type, c.Labels = schema.Bool, []string{"true", "false"}
	case "int2", "int4", "int8":
		c.Type, c.Size = schema.Int, int(row["type"][3]-'0')
	case "float4", "float8":
		c.Type, c.Size = schema.Real, int(row["type"][5]-'0')
		more.image = "pg_catalog." + row["type"] + "send(%s)"
	case "numeric":
		c.Type, more.image = schema.Number, "pg_catalog.numeric_send(%s)"
		c.Judged = c.Judged || mod >= 0
	case "text":
		text()
		c.HoldsTime = true
	case "name":
		text()
		c.Size, c.Bytes = maxName, true
	case "char": // with quotes; without, it is bpchar
		text()
		c.Size, c.Bytes = 1, true
	case "varchar", "bpchar":
		if text(); mod > 4 {
			c.Size = int(mod - 4)
		}
		if c.HoldsTime = c.Size == 0 || c.Size >= len(stampFormat); row["type"] == "bpchar" {
			c.Collation = "RTRIM"
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
		more.image, c.HoldsTime = "(%s)::text", row["type"] == "timestamp"
		switch {
		case isEnum:
			c.Type, c.Labels, more.image = schema.Enum, strings.Split(row["labels"], "\x01"), "%s"
			if row["typtype"] == "d" { // which no operator of enums takes
				more.image = "(%s)::" + strings.ReplaceAll(more.staged, "%", "%%")
			}
		case row["category"] == "A":
			c.Type, c.Judged = schema.Array, true
		default:
			c.Type, c.Judged = schema.External, true
		}
	}
	return c, more
}

// readIndexes marks the key's columns, demands that the database hold their
// values unique, finds a column of integers that the database generates, and reports whether another
// index can refuse a row: of a table of weir's that of such a column cannot.
func (t *relation) readIndexes(indexes result, ours bool) (other bool, err error) {
	names := t.KeyColumns()
	sorted := slices.Sorted(slices.Values(names))
	unique := false
	for _, row := range indexes.rows {
		if string(row[0]) == "t" && string(row[1]) == "t" && string(row[2]) == strings.Join(sorted, "\x01") {
			unique = true
			t.keyIndexes = append(t.keyIndexes, strings.Split(string(row[3]), "\x01")...)
		} else if !t.serial(row) || !ours {
			other = other || string(row[0]) == "t" || string(row[1]) == "f"
		}
	}
	for _, k := range t.Key {
		c := &t.Columns[k]
		c.Key = true
		switch {
		case c.Generated:
			return false, sink.KeyColumnError(&t.Table, c, sink.Computed)
		case c.Type == schema.External || c.Type == schema.Array || c.Type == schema.JSON:
			return false, sink.KeyColumnError(&t.Table, c, "is "+c.Decl+": weir could not tell which of its values are equal")
		case (c.Type == schema.Number || c.Type == schema.Instant) && strings.Contains(c.Decl, "(") || c.Type == schema.Real && c.Size == 4:
			return false, sink.KeyColumnError(&t.Table, c, "is "+c.Decl+", which rounds: weir could not tell which of its values become equal")
		case c.Collation != "" && c.Collation != "RTRIM":
			return false, sink.KeyColumnError(&t.Table, c, "has the collation "+c.Collation+", which calls different texts equal: weir could not tell which")
		}
	}
	if !unique {
		_, rel, _ := splitName(t.Name)
		return false, sink.NotUniqueError(&t.Table, ident(cut(rel, maxName-4)+"_key"), t.ident, sink.NameList(t.KeyColumns(), ident))
	}
	return other, nil
}

// serial notes that an index is that of a column of integers that the database generates, if it is.
func (t *relation) serial(index [][]byte) bool {
	at := slices.IndexFunc(t.Columns, func(c schema.Column) bool { return c.Name == string(index[2]) })
	if string(index[0]) != "t" || string(index[1]) != "t" || at < 0 || slices.Contains(t.Key, at) {
		return false
	}
	c := &t.Columns[at]
	c.Serial = c.Type == schema.Int && (t.cols[at].identity || strings.HasPrefix(c.Default, "nextval("))
	return c.Serial
}

// compared is a column of the key, of the table as t, in a form that the index over it
// serves, and operators take.
func (t *relation) compared(k int) string {
	return t.comparable(k, "t."+ident(t.Columns[k].Name))
}

// comparable is an expression for the value of a column in such a form.
func (t *relation) comparable(k int, column string) string {
	if t.Columns[k].Type == schema.Enum {
		return fmt.Sprintf(t.cols[k].image, column)
	}
	return column
}

func cut(s string, n int) string { return s[:min(len(s), n)] }

// declare is the type of a column that weir makes.
func declare(c *schema.Column) string {
	if c.Decl != "" && !c.Own { // it is like one of others
		return c.Decl
	}
	switch c.Type {
	case schema.Bool:
		return "boolean"
	case schema.Int:
		return "bigint"
	case schema.Real:
		return "double precision"
	case schema.Number:
		if c.Precision > 0 {
			return fmt.Sprintf("numeric(%d,%d)", c.Precision, c.Scale)
		}
		return "numeric"
	case schema.JSON:
		return "jsonb"
	case schema.Instant:
		return "timestamp with time zone"
	case schema.Day:
		return "date"
	case schema.UUID:
		return "uuid"
	case schema.Bytes:
		return "bytea"
	}
	return "text"
}

// made is what a column that weir makes is to the driver.
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

// waits tells that a new column is not made: it has no type yet, because nothing but nulls came,
// or is none of the database's.
func waits(c *schema.Column) bool {
	return c.New && c.Type == schema.Any || !c.Stored()
}

// fillFactor leaves room in a page for new versions of its rows, which then need
// no new entries in the indexes.
const fillFactor = 90

// stampFormat is how stamps are written. A timestamp without time zone gets them in UTC, for
// it passes over the zone.
const stampFormat = "2006-01-02 15:04:05.000+00"

// Create returns the statement that makes a table, as weir would make it.
func Create(t *schema.Table) string {
	var definitions []string
	for i := range t.Columns {
		if c := &t.Columns[i]; !waits(c) {
			sql := definition(c)
			if c.Key && t.Surrogate() >= 0 { // which the primary key has of itself
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

// named is a table's name in SQL, as the user gave it.
func named(table string) string {
	schemaName, rel, _ := splitName(table)
	return identOf(schemaName, rel)
}

// Plan is that of [sink.Driver].
func Plan(want *schema.Table) []string {
	return sink.Plan(want, Create(want), func(c *schema.Column) string {
		if waits(c) {
			return ""
		}
		return "ALTER TABLE " + named(want.Name) + " ADD COLUMN " + definition(c)
	})
}
