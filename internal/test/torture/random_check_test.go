package torture

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testweir"
)

// A cell is a column of a row in the database.
type cell struct {
	kind string // null, int, real, num, text, bool, json
	text string
}

// check compares the tables and the rejected lines with the model.
func (r *running) check() error {
	model, rejects := r.model()
	db := r.open()
	defer db.Close()
	var faults []string
	var err error
	if r.mapping != nil {
		faults, err = r.checkMapping(db)
	} else {
		faults, err = r.checkTable(db, model)
	}
	kept, keptErr := r.rejected(db)
	if err := errors.Join(err, keptErr); err != nil {
		return err
	}
	if !slices.Equal(kept, rejects) {
		faults = append(faults, fmt.Sprintf("rejected lines: %v, and should be: %v", kept, rejects))
	}
	if len(faults) == 0 && r.verifies() {
		if code, out := r.verify(); code != 0 {
			faults = append(faults, fmt.Sprintf("verify ended with %d\n%s", code, out))
		}
	}
	if len(faults) > 0 {
		slices.Sort(faults)
		return errors.New(strings.Join(faults[:min(len(faults), 8)], "\n"))
	}
	return nil
}

// checkTable returns the differences between the table and the model.
func (r *running) checkTable(db *sql.DB, model *foldtest.Table) (faults []string, err error) {
	have, columns, err := r.read(db)
	if err != nil {
		return nil, err
	}
	for _, c := range model.Columns {
		if err := r.typed(c.Name); err != nil && slices.Contains(columns, c.Name) {
			faults = append(faults, err.Error())
		}
	}
	return append(faults, differences("t", have, model.Rows(), r.same)...), nil
}

// differences returns the differences between rows and the expected rows, both by key.
func differences(table string, have map[string]map[string]cell, want map[string]map[string]foldtest.Value, same func(column string, want foldtest.Value, have cell) bool) (faults []string) {
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(table+": "+format, args...))
	}
	for key, row := range have {
		if want[key] == nil {
			fault("there is the row %s", key)
			continue
		}
		for name, h := range row {
			if w := want[key][name]; !same(name, w, h) {
				fault("row %s: %q is %s %q, and should be %s", key, name, h.kind, h.text, w.JSON())
			}
		}
	}
	for key, row := range want {
		if have[key] == nil {
			fault("there is no row %s", key)
			continue
		}
		for name, w := range row {
			if _, exists := have[key][name]; !exists && w.Kind != foldtest.Null && !strings.HasPrefix(name, "\x01") {
				fault("row %s has no column %q, which should be %s", key, name, w.JSON())
			}
		}
	}
	return faults
}

// same reports whether a cell holds the expected value.
func (r *running) same(column string, want foldtest.Value, have cell) bool {
	if r.table != nil {
		for _, w := range r.table.columns {
			switch {
			case w.Name != column:
			case w.Generated:
				return true
			case want.Kind == foldtest.Null || have.kind == "null":
				return want.Kind == foldtest.Null && have.kind == "null"
			default:
				return w.same(want, have)
			}
		}
	}
	if slices.Contains(r.rules.Key, column) {
		return have.kind != "null" // the row was found by it
	}
	kind := r.fold.Type(column)
	if want.Kind != foldtest.Null && kind == foldtest.TextType && have.kind != "text" {
		return false
	}
	switch want.Kind {
	case foldtest.Null:
		return have.kind == "null"
	case foldtest.Bool:
		if kind == foldtest.BoolType && have.kind == "int" { // in SQLite, if the column's first values were null
			return have.text == map[string]string{"true": "1", "false": "0"}[want.Text]
		}
		return have.text == want.Text && (have.kind == "bool" || have.kind == "text")
	case foldtest.Number, foldtest.JSON:
		return want.Is(have.text)
	}
	return have.text == want.Text // a text, or NaN or an infinity in a column of numbers
}

// types are the types of columns that weir makes, in SQLite and Postgres.
var types = map[string][2]string{foldtest.BoolType: {"BOOLEAN", "boolean"}, foldtest.IntType: {"INTEGER", "bigint"}, foldtest.RealType: {"REAL", "double precision"},
	foldtest.NumberType: {"", "numeric"}, foldtest.JSONType: {"TEXT", "jsonb"}, foldtest.TextType: {"TEXT", "text"}}

// typed returns an error if a column that weir made has a wrong type. In SQLite it may have none.
func (r *running) typed(column string) error {
	kind := r.fold.Type(column)
	if kind == "" || slices.Contains(r.rules.Key, column) {
		return nil
	}
	want, have := types[kind][0], r.types[column]
	if r.postgres {
		want = types[kind][1]
	}
	if have == want || have == "" && !r.postgres {
		return nil
	}
	return fmt.Errorf("the type of %q is %q, and should be %q", column, have, want)
}

// read returns the rows of the table by key.
func (r *running) read(db *sql.DB) (rows map[string]map[string]cell, columns []string, err error) {
	t, err := rowsOf(db, r.postgres, "t")
	if err != nil {
		return nil, nil, err
	}
	rows, r.types = map[string]map[string]cell{}, t.types
	for _, row := range t.rows {
		key := r.keyOf(row)
		if rows[key] != nil {
			return nil, nil, fmt.Errorf("the table has the row %s twice", key)
		}
		rows[key] = row
	}
	return rows, t.columns, nil
}

// tableRows are the rows of a table, which has no columns if it is missing.
type tableRows struct {
	columns []string
	types   map[string]string
	rows    []map[string]cell
}

// rowsOf reads a table.
func rowsOf(db testweir.Queries, postgres bool, table string) (t tableRows, err error) {
	t.types = map[string]string{}
	describe := "SELECT name, type FROM pragma_table_xinfo('" + table + "')"
	if postgres {
		describe = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = to_regclass('" + table + "') AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
	}
	described, err := testweir.Cells(db, describe)
	if err != nil || len(described) == 0 {
		return t, err
	}
	var list []string
	for _, d := range described {
		name, kind := fmt.Sprint(d[0]), fmt.Sprint(d[1])
		t.columns, t.types[name] = append(t.columns, name), kind
		if postgres {
			list = append(list, quote(name)+"::text", "''")
		} else {
			list = append(list, "+"+quote(name), "typeof("+quote(name)+")")
		}
	}
	found, err := testweir.Cells(db, "SELECT "+strings.Join(list, ", ")+" FROM "+table)
	for _, values := range found {
		row := map[string]cell{}
		for i, name := range t.columns {
			row[name] = newCell(values[2*i], fmt.Sprint(values[2*i+1]), t.types[name])
		}
		t.rows = append(t.rows, row)
	}
	return t, err
}

// newCell converts a value from the driver.
func newCell(v any, storage, kind string) cell {
	switch v := v.(type) {
	case nil:
		return cell{kind: "null"}
	case int64:
		if kind == "BOOLEAN" && (v == 0 || v == 1) {
			return cell{"bool", fmt.Sprint(v == 1)}
		}
		return cell{"int", fmt.Sprint(v)}
	case float64:
		return cell{"real", strconv.FormatFloat(v, 'g', -1, 64)}
	case []byte:
		if storage == "blob" {
			return cell{storage, fmt.Sprintf(`\x%x`, v)}
		}
		return cell{storage, string(v)}
	}
	text := fmt.Sprint(v)
	switch kind {
	case "boolean":
		return cell{"bool", text}
	case "bigint", "integer":
		return cell{"int", text}
	case "double precision": // Postgres sometimes prints another last digit
		f, _ := strconv.ParseFloat(text, 64)
		return cell{"real", strconv.FormatFloat(f, 'g', -1, 64)}
	case "real", "numeric":
		return cell{"real", text}
	case "json", "jsonb":
		return cell{"json", text}
	}
	return cell{"text", text}
}

func (r *running) keyOf(row map[string]cell) string {
	var parts []string
	for i, k := range r.rules.Key {
		text := row[k].text
		if r.table != nil {
			text = userKeys[r.keys[i]].same(foldtest.Value{Kind: foldtest.String, Text: text})
		}
		parts = append(parts, text)
	}
	return foldtest.Key(parts...)
}

// rejected returns the lines that were kept as rejects.
func (r *running) rejected(db *sql.DB) (kept []string, err error) {
	rows, err := rowsOf(db, r.postgres, "weir_rejects") // none if nothing was ever rejected
	for _, row := range rows.rows {
		line, _ := strconv.Atoi(row["line"].text) // always a number
		element, _ := strconv.Atoi(row["element"].text)
		kept = append(kept, r.place(row["source"].text, line, element, row["raw"].text))
	}
	slices.Sort(kept)
	return kept, err
}

// place identifies a message in the model if it was kept unchanged.
func (r *running) place(source string, line, element int, raw string) string {
	name := filepath.Base(source)
	for w, files := range r.files {
		for p, lines := range files {
			switch {
			case r.stdin && line > len(lines):
				line -= len(lines)
			case r.stdin || name == r.file(w, p), r.late && w == 0 && !strings.HasPrefix(name, "w"):
				if element > 0 {
					line = len(slices.Concat(r.groups(lines)[:line-1]...)) + element
				} else if r.arrays {
					line = len(slices.Concat(r.groups(lines)[:line]...))
				}
				name := fmt.Sprintf("%s:%d", r.file(w, p), line)
				want := lines[line-1]
				if element > 0 {
					want = strings.TrimSpace(want)
				}
				if want != raw && utf8.ValidString(want) {
					name += fmt.Sprintf(" as %q", raw)
				}
				return name
			}
		}
	}
	return fmt.Sprintf("%s:%d of no file", source, line)
}

// verify compares the table with the feed using weir verify.
func (r *running) verify() (code int, out string) {
	args := []string{"verify"}
	for w, files := range r.files {
		for p := range files {
			args = append(args, r.file(w, p))
		}
	}
	return r.weir(nil, 0, append(args, r.foldArgs(r.To)...)...)
}

// verifies reports whether weir verify must agree: it cannot know what the database rejected.
func (r *running) verifies() bool {
	if r.rules.MaxColumns != 500 && notYet["verify where few columns are added"] {
		return false
	}
	return !r.blind && (r.table == nil || !r.table.linked && !slices.ContainsFunc(r.table.columns, func(w userColumn) bool { return w.wrong != "" || w.named }))
}

// spoil changes one value of a table that weir made, or removes a row, and expects verify to find it.
func (r *running) spoil() error {
	if r.table != nil || r.mapping != nil || !r.verifies() {
		return nil
	}
	db := r.open()
	defer db.Close()
	have, columns, err := r.read(db)
	if err != nil || len(have) == 0 {
		return err
	}
	rnd := rand.New(rand.NewPCG(uint64(len(have)), uint64(r.killIn)))
	id := "ctid"
	if !r.postgres {
		id = "rowid"
		for _, alias := range []string{"_rowid_", "oid"} {
			if slices.Contains(columns, id) {
				id = alias
			}
		}
	}
	column := quote(pick(rnd, columns))
	which := fmt.Sprintf("%s = (SELECT %s FROM t WHERE %s IS NOT NULL LIMIT 1)", id, id, column)
	change := "DELETE FROM t WHERE " + which
	if !slices.ContainsFunc(r.rules.Key, func(k string) bool { return quote(k) == column }) {
		other := "CASE typeof({}) WHEN 'text' THEN {} || 'x' ELSE CASE WHEN {} = 0 THEN 1 ELSE -{} END END"
		if r.postgres {
			var kind string
			if err := db.QueryRow("SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = 't'::regclass AND quote_ident(attname) = quote_ident($1)",
				strings.ReplaceAll(strings.Trim(column, `"`), `""`, `"`)).Scan(&kind); err != nil {
				return err
			}
			other = cmp.Or(map[string]string{"text": "{} || 'x'", "boolean": "NOT {}", "jsonb": `'["spoiled"]'`, "bigint": "CASE WHEN {} BETWEEN -5 AND 5 THEN 6 ELSE 0 END"}[kind],
				"CASE WHEN {} = 0 THEN 1 ELSE 0 END")
		}
		other = strings.ReplaceAll(other, "{}", column)
		change = "UPDATE t SET " + column + " = " + other + " WHERE " + which
	}
	done, err := db.Exec(change)
	if err != nil {
		return fmt.Errorf("%s: %w", change, err)
	}
	if n, err := done.RowsAffected(); n == 0 || err != nil {
		return err
	}
	db.Close()
	if code, out := r.verify(); code != 1 {
		return fmt.Errorf("verify ended with %d after %s\n%s", code, change, out)
	}
	return nil
}
