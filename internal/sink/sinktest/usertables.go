package sinktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
)

// A userTable is a kind of table that users make. Its columns are id, a and b, and b is text.
type userTable struct {
	name string
	// create are the statements that create the table {t}, in both databases; sqlite or postgres, in one of them.
	// Without any, the database has no such kind.
	create, sqlite, postgres string
	// a are two values of column a, in JSON and in SQL; by default the texts x and y.
	a [2]sqlValue
	// id is the format of a key in messages, old of the same key in a row that exists already; by default %d.
	id, old sqlValue
	// generated: the database computes column a, so weir ignores the field.
	generated bool
	// rows are the expressions to compare, by default id, a and b; also is a query of what else was written.
	rows, also string
	// refused are the names of the changes whose last statement the database refuses.
	refused []string
	// overriding stands in INSERTs by hand before VALUES.
	overriding string
	// updates: Postgres updates a row that one batch deletes and inserts, and the kind shows it.
	updates bool
}

type sqlValue struct{ json, sql string }

// A change is what messages do to one row. Its statements do the same by hand: ID is the key, A1 and A2 are the values
// of a, and "SET a" becomes nothing in tables that generate it.
type change struct {
	name string
	// exists: the row has a = A1 and b = 'old'.
	exists     bool
	messages   []string
	statements []string
	// update is what the statements are if Postgres updates the row.
	update string
}

var changes = []change{
	{"a new row with a", false, lines{`{"id":ID,"a":A1}`}, lines{`INSERT INTO {t} (id, a) VALUES (ID, A1)`}, ""},
	{"a new row with b", false, lines{`{"id":ID,"b":"new"}`}, lines{`INSERT INTO {t} (id, b) VALUES (ID, 'new')`}, ""},
	{"a new row with null", false, lines{`{"id":ID,"a":null}`}, lines{`INSERT INTO {t} (id, a) VALUES (ID, NULL)`}, ""},
	{"a new row with its key", false, lines{`{"id":ID}`}, lines{`INSERT INTO {t} (id) VALUES (ID)`}, ""},
	{"a new row with all", false, lines{`{"id":ID,"a":A2,"b":"new"}`}, lines{`INSERT INTO {t} (id, a, b) VALUES (ID, A2, 'new')`}, ""},
	{"a sets b", true, lines{`{"id":ID,"b":"new"}`}, lines{`UPDATE {t} SET b = 'new' WHERE id = ID`}, ""},
	{"a sets a", true, lines{`{"id":ID,"a":A2}`}, lines{`UPDATE {t} SET a = A2 WHERE id = ID`}, ""},
	{"a sets a to null", true, lines{`{"id":ID,"a":null}`}, lines{`UPDATE {t} SET a = NULL WHERE id = ID`}, ""},
	{"a sets b to null", true, lines{`{"id":ID,"b":null}`}, lines{`UPDATE {t} SET b = NULL WHERE id = ID`}, ""},
	{"a repeats a", true, lines{`{"id":ID,"a":A1}`}, nil, ""},
	{"a repeats b", true, lines{`{"id":ID,"b":"old"}`}, lines{`UPDATE {t} SET b = 'old' WHERE id = ID AND b IS DISTINCT FROM 'old'`}, ""},
	{"a repeats itself", true, lines{`{"id":ID,"b":"new"}`, `{"id":ID,"b":"new"}`}, lines{`UPDATE {t} SET b = 'new' WHERE id = ID`}, ""},
	{"a deletes", true, lines{`{"id":ID,"op":"delete"}`}, lines{`DELETE FROM {t} WHERE id = ID`}, ""},
	{"a deletes and inserts b", true, lines{`{"id":ID,"op":"delete"}`, `{"id":ID,"b":"new"}`},
		lines{`DELETE FROM {t} WHERE id = ID`, `INSERT INTO {t} (id, b) VALUES (ID, 'new')`},
		`UPDATE {t} SET a = DEFAULT, b = 'new' WHERE id = ID`},
	{"a deletes and inserts a", true, lines{`{"id":ID,"op":"delete"}`, `{"id":ID,"a":A2}`},
		lines{`DELETE FROM {t} WHERE id = ID`, `INSERT INTO {t} (id, a) VALUES (ID, A2)`},
		`UPDATE {t} SET a = A2, b = DEFAULT WHERE id = ID`},
}

// userTableTests: a message does to a table of the user what an INSERT or UPDATE of only its columns does by hand, for
// many rows in one batch, and for each line in a batch of its own.
var userTableTests = func() (tests []test) {
	for _, k := range userTables {
		for name, copies := range map[string]int{"": 20, ", line by line": 1} {
			tests = append(tests, test{k.name + name, func(t *testing.T, db Database) { k.compare(t, db, copies) }})
		}
	}
	return tests
}()

// compare compares what weir and statements by hand do to two tables. One copy of the changes is flushed line by line,
// and several at once.
func (k *userTable) compare(t *testing.T, db Database, copies int) {
	d, _ := db.Driver()
	create := cmp.Or(map[string]string{"SQLite": k.sqlite, "Postgres": k.postgres}[d.Name], k.create)
	if create == "" {
		t.Skip("the database has no such tables")
	}
	begin := []string{in("hand", create), in(table, create)}
	k.each(copies, func(c change, id int) {
		if c.exists {
			sql := k.byHand("INSERT INTO {t} (id, a, b) VALUES (ID, A1, 'old')", k.old, id)
			begin = append(begin, in("hand", sql), in(table, sql))
		}
	})
	db.Exec(t, "BEGIN;"+strings.Join(begin, ";\n")+"; COMMIT")

	run := Begin(t, db, func(o *fold.Options) { o.UnknownFields = fold.IgnoreUnknown })
	var byHand []string
	refused := 0
	k.each(copies, func(c change, id int) {
		for _, m := range c.messages {
			run.Fold(strings.NewReplacer("ID", fmt.Sprintf(cmp.Or(k.id.json, "%d"), id), "A1", k.value(0).json, "A2", k.value(1).json).Replace(m))
			if copies == 1 {
				run.Flush()
			}
		}
		statements := c.statements
		switch {
		case slices.Contains(k.refused, c.name):
			statements, refused = statements[:len(statements)-1], refused+1
		case k.updates && d.Name == "Postgres" && copies > 1 && c.update != "":
			statements = lines{c.update}
		}
		for _, sql := range statements {
			if sql = k.byHand(sql, k.id, id); sql != "" {
				byHand = append(byHand, in("hand", sql))
			}
		}
	})
	run.Flush()
	db.Exec(t, "BEGIN;"+strings.Join(byHand, ";\n")+"; COMMIT")

	for _, query := range []string{"SELECT " + cmp.Or(k.rows, "id, a, b") + " FROM {t} ORDER BY id", k.also} {
		if query != "" {
			weir, hand := Rows(t, db, in(table, query)), Rows(t, db, in("hand", query))
			if !slices.Equal(weir, hand) {
				t.Errorf("%s\n weir: %s\n by hand: %s", query, without(weir, hand), without(hand, weir))
			}
		}
	}
	Expect(t, db, "SELECT count(*) FROM weir_rejects", fmt.Sprint(refused))
}

// without returns a few of the rows that others lack.
func without(rows, others []string) string {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r string) bool { return slices.Contains(others, r) })
	return strings.Join(rows[:min(len(rows), 20)], ", ")
}

// each calls do for each change of each row.
func (k *userTable) each(copies int, do func(c change, id int)) {
	for n, c := range changes {
		for i := range copies {
			do(c, 100*n+i+1)
		}
	}
}

// in returns SQL for a table.
func in(table, sql string) string { return strings.ReplaceAll(sql, "{t}", table) }

// byHand returns a statement for a row, or "" if it would set a column that the database computes.
func (k *userTable) byHand(sql string, key sqlValue, id int) string {
	if k.generated {
		if strings.Contains(sql, "SET a") {
			return ""
		}
		sql = strings.NewReplacer(", a", "", ", A1", "", ", A2", "", ", NULL", "").Replace(sql)
	}
	return strings.NewReplacer("ID", fmt.Sprintf(cmp.Or(key.sql, "%d"), id), "A1", k.value(0).sql, "A2", k.value(1).sql,
		" VALUES", k.overriding+" VALUES").Replace(sql)
}

// value returns a value of column a.
func (k *userTable) value(i int) sqlValue {
	return cmp.Or(k.a[i], [2]sqlValue{{`"x"`, "'x'"}, {`"y"`, "'y'"}}[i])
}
