package torture

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// verify has the program compare the table with the feed.
func (r *running) verify() (code int, out string) {
	args := []string{"verify"}
	for w, files := range r.files {
		for p := range files {
			args = append(args, r.file(w, p))
		}
	}
	return r.weir(nil, 0, append(args, r.foldArgs(r.to)...)...)
}

// verifies reports whether weir verify has to agree: it cannot know what the database
// refused.
func (r *running) verifies() bool {
	if r.rules.MaxColumns != 500 && notYet["verify where few columns are added"] {
		return false
	}
	if r.mapping != nil && r.messages.fleet { // deletes that references refuse
		return false
	}
	return !r.blind && (r.table == nil || !r.table.linked && !slices.ContainsFunc(r.table.columns, func(w userColumn) bool { return w.wrong != "" || w.named }))
}

// spoil changes one value of a table that weir made, or removes a row, and demands that
// verify find it.
func (r *running) spoil() error {
	if r.table != nil || r.mapping != nil || !r.verifies() {
		return nil
	}
	db, err := r.open()
	if err != nil {
		return err
	}
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
				"CASE WHEN {} = 0 THEN 1 ELSE -{} END")
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
