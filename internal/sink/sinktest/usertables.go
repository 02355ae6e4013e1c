package sinktest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
)

// A userTable is a kind of table that users make. Its columns are id, a and b, and b is text.
type userTable struct {
	name string
	// sqlite and postgres create the table, which is called {t}; without statements, the database has no such kind.
	sqlite, postgres ddl
	// a are two values of column a, in JSON and in SQL; by default the texts x and y.
	a [2]sqlValue
	// id is the format of a key in messages, old of the same key in a row that exists already; by default %d.
	id, old sqlValue
	// generated: the database computes column a, so weir ignores the field.
	generated bool
	// rows are the expressions to compare, by default id, a and b.
	rows string
	// refused are the names of the changes whose last statement the database refuses.
	refused []string
}

type ddl struct {
	create []string
	// also is a query of what triggers wrote.
	also string
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
}

var changes = []change{
	{"a new row with a", false, lines{`{"id":ID,"a":A1}`}, []string{`INSERT INTO {t} (id, a) VALUES (ID, A1)`}},
	{"a new row with b", false, lines{`{"id":ID,"b":"new"}`}, []string{`INSERT INTO {t} (id, b) VALUES (ID, 'new')`}},
	{"a new row with null", false, lines{`{"id":ID,"a":null}`}, []string{`INSERT INTO {t} (id, a) VALUES (ID, NULL)`}},
	{"a new row with its key", false, lines{`{"id":ID}`}, []string{`INSERT INTO {t} (id) VALUES (ID)`}},
	{"a new row with all", false, lines{`{"id":ID,"a":A2,"b":"new"}`}, []string{`INSERT INTO {t} (id, a, b) VALUES (ID, A2, 'new')`}},
	{"a sets b", true, lines{`{"id":ID,"b":"new"}`}, []string{`UPDATE {t} SET b = 'new' WHERE id = ID`}},
	{"a sets a", true, lines{`{"id":ID,"a":A2}`}, []string{`UPDATE {t} SET a = A2 WHERE id = ID`}},
	{"a sets a to null", true, lines{`{"id":ID,"a":null}`}, []string{`UPDATE {t} SET a = NULL WHERE id = ID`}},
	{"a sets b to null", true, lines{`{"id":ID,"b":null}`}, []string{`UPDATE {t} SET b = NULL WHERE id = ID`}},
	{"a repeats what the row has", true, lines{`{"id":ID,"b":"old"}`}, []string{`UPDATE {t} SET b = 'old' WHERE id = ID AND b IS DISTINCT FROM 'old'`}},
	{"a repeats itself", true, lines{`{"id":ID,"b":"new"}`, `{"id":ID,"b":"new"}`}, []string{`UPDATE {t} SET b = 'new' WHERE id = ID`}},
	{"a deletes", true, lines{`{"id":ID,"op":"delete"}`}, []string{`DELETE FROM {t} WHERE id = ID`}},
	{"a deletes and inserts b", true, lines{`{"id":ID,"op":"delete"}`, `{"id":ID,"b":"new"}`},
		[]string{`DELETE FROM {t} WHERE id = ID`, `INSERT INTO {t} (id, b) VALUES (ID, 'new')`}},
	{"a deletes and inserts a", true, lines{`{"id":ID,"op":"delete"}`, `{"id":ID,"a":A2}`},
		[]string{`DELETE FROM {t} WHERE id = ID`, `INSERT INTO {t} (id, a) VALUES (ID, A2)`}},
}

var withoutA = []string{"a new row with b", "a new row with null", "a new row with its key", "a sets a to null", "a deletes and inserts b"}

// same returns statements that mean the same in both databases.
func same(create ...string) (sqlite, postgres ddl) { return ddl{create: create}, ddl{create: create} }

// userTables are kinds of tables.
func userTables() (all []userTable) {
	kind := func(name string, sqlite, postgres ddl, set ...func(*userTable)) {
		k := userTable{name: name, sqlite: sqlite, postgres: postgres, rows: "id, a, b",
			a: [2]sqlValue{{`"x"`, "'x'"}, {`"y"`, "'y'"}}, id: sqlValue{"%d", "%d"}, old: sqlValue{"%d", "%d"}}
		for _, s := range set {
			s(&k)
		}
		all = append(all, k)
	}
	plain := func(name string, create string, set ...func(*userTable)) {
		sqlite, postgres := same(create)
		kind(name, sqlite, postgres, set...)
	}
	onlySQLite := func(name string, set func(*userTable), create ...string) { kind(name, ddl{create: create}, ddl{}, set) }
	refuses := func(names ...string) func(*userTable) { return func(k *userTable) { k.refused = names } }
	compare := func(rows string) func(*userTable) { return func(k *userTable) { k.rows = rows } }
	numbers := func(k *userTable) { k.a = [2]sqlValue{{"1.5", "1.5"}, {"2.25", "2.25"}} }

	plain("plain", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT)`)
	plain("a default text", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT)`)
	plain("a default number in a text column", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 7, b TEXT)`)
	plain("a default real", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a REAL DEFAULT 0.1, b TEXT)`, numbers)
	plain("a default expression", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT (upper('a') || 'b'), b TEXT)`)
	plain("a default of now", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`,
		compare("id, a, b, at IS NULL"))
	plain("a default of now in a", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT CURRENT_TIMESTAMP, b TEXT)`,
		compare("id, CASE WHEN length(a) > 9 THEN 'now' ELSE a END, b"))
	kind("a random default", ddl{create: []string{`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT (random()), b TEXT)`}},
		ddl{create: []string{`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT gen_random_uuid(), b TEXT)`}},
		compare("id, CASE WHEN length(a) > 1 THEN 'random' ELSE a END, b"))
	plain("two defaults", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT DEFAULT 'none')`)
	plain("NOT NULL", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT)`, refuses(withoutA...))
	plain("NOT NULL with a default", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'none', b TEXT)`,
		refuses("a new row with null", "a sets a to null"))
	plain("a check", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT CHECK (a <> 'y'), b TEXT)`,
		refuses("a new row with all", "a sets a", "a deletes and inserts a"))
	plain("a check of two columns", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT, CHECK (a IS NOT NULL OR b IS NOT NULL))`,
		refuses("a new row with null", "a new row with its key"))
	plain("a generated column", `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT GENERATED ALWAYS AS (b || '!') STORED, b TEXT)`,
		func(k *userTable) { k.generated = true })
	onlySQLite("a virtual column", func(k *userTable) { k.generated = true },
		`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT AS (b || '!') VIRTUAL, b TEXT)`)
	sqlite, postgres := same(`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT)`, `CREATE INDEX {t}_a ON {t} (a)`)
	kind("an index", sqlite, postgres)
	sqlite, postgres = same(`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT)`, `CREATE UNIQUE INDEX {t}_a ON {t} (id, a)`)
	kind("a second unique index", sqlite, postgres)
	sqlite, postgres = same(`CREATE TABLE {t}_parent (name TEXT PRIMARY KEY)`, `INSERT INTO {t}_parent VALUES ('x')`,
		`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT REFERENCES {t}_parent (name) DEFERRABLE INITIALLY DEFERRED, b TEXT)`)
	kind("a deferred foreign key", sqlite, postgres, refuses("a new row with all", "a sets a", "a deletes and inserts a"))
	sqlite, postgres = same(`CREATE TABLE {t}_parent (name TEXT PRIMARY KEY)`, `INSERT INTO {t}_parent VALUES ('x'), ('none')`,
		`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none' REFERENCES {t}_parent (name), b TEXT)`)
	kind("a foreign key with a default", sqlite, postgres, refuses("a new row with all", "a sets a", "a deletes and inserts a"))
	plain("a key of others that is text", `CREATE TABLE {t} (id TEXT PRIMARY KEY NOT NULL, a TEXT, b TEXT)`,
		func(k *userTable) { k.id, k.old = sqlValue{`"k%d"`, "'k%d'"}, sqlValue{`"k%d"`, "'k%d'"} })
	onlySQLite("AUTOINCREMENT", func(*userTable) {}, `CREATE TABLE {t} (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT)`)
	onlySQLite("a rowid next to the key", compare("id, a, b, n IS NULL"),
		`CREATE TABLE {t} (n INTEGER PRIMARY KEY, id INTEGER UNIQUE, a TEXT, b TEXT)`)
	onlySQLite("STRICT", func(*userTable) {}, `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT) STRICT`)
	onlySQLite("STRICT with a default", func(*userTable) {}, `CREATE TABLE {t} (id INT PRIMARY KEY, a ANY DEFAULT 1, b TEXT) STRICT`)
	onlySQLite("WITHOUT ROWID", func(*userTable) {}, `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT) WITHOUT ROWID`)
	onlySQLite("WITHOUT ROWID with a default", func(*userTable) {}, `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT) WITHOUT ROWID`)
	onlySQLite("a column without a type", numbers, `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a, b TEXT)`)
	onlySQLite("columns that compare without case", func(k *userTable) { k.a = [2]sqlValue{{`"x"`, "'x'"}, {`"X"`, "'X'"}} },
		`CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b TEXT)`)
	onlySQLite("a key that compares without case",
		func(k *userTable) { k.id, k.old = sqlValue{`"ID%d"`, "'ID%d'"}, sqlValue{`"id%d"`, "'id%d'"} },
		`CREATE TABLE {t} (id TEXT COLLATE NOCASE PRIMARY KEY, a TEXT, b TEXT)`)

	logs := func(also string, create ...string) ddl {
		return ddl{create: append([]string{`CREATE TABLE {t}_log (what TEXT, id INTEGER)`, `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT)`}, create...), also: also}
	}
	written := `SELECT what, id, count(*) FROM {t}_log GROUP BY what, id ORDER BY what, id`
	kind("triggers after a write", logs(written,
		`CREATE TRIGGER {t}_i AFTER INSERT ON {t} BEGIN INSERT INTO {t}_log VALUES ('inserted ' || coalesce(NEW.a, 'nothing'), NEW.id); END`,
		`CREATE TRIGGER {t}_u AFTER UPDATE ON {t} BEGIN INSERT INTO {t}_log VALUES ('updated ' || coalesce(OLD.a, 'nothing'), NEW.id); END`,
		`CREATE TRIGGER {t}_d AFTER DELETE ON {t} BEGIN INSERT INTO {t}_log VALUES ('deleted', OLD.id); END`), ddl{})
	kind("a trigger of one column", logs(written,
		`CREATE TRIGGER {t}_u AFTER UPDATE OF a ON {t} BEGIN INSERT INTO {t}_log VALUES ('updated a', NEW.id); END`), ddl{})
	kind("triggers before a write", logs(written,
		`CREATE TRIGGER {t}_i BEFORE INSERT ON {t} BEGIN INSERT INTO {t}_log VALUES ('inserts', NEW.id); END`,
		`CREATE TRIGGER {t}_u BEFORE UPDATE ON {t} BEGIN INSERT INTO {t}_log VALUES ('updates', NEW.id); END`), ddl{})
	kind("a trigger that changes the row", logs("", `CREATE TRIGGER {t}_i AFTER INSERT ON {t} BEGIN UPDATE {t} SET b = coalesce(NEW.b, '') || '!' WHERE id = NEW.id; END`), ddl{})
	kind("a trigger that raises", logs(written,
		`CREATE TRIGGER {t}_i BEFORE INSERT ON {t} WHEN NEW.a = 'y' BEGIN SELECT RAISE(ABORT, 'no y'); END`,
		`CREATE TRIGGER {t}_u AFTER UPDATE ON {t} WHEN NEW.a = 'y' BEGIN INSERT INTO {t}_log VALUES ('undone', 0); SELECT RAISE(FAIL, 'no y'); END`), ddl{},
		refuses("a new row with all", "a sets a", "a deletes and inserts a"))
	return all
}

// userTableTests: a message does to a table of the user what an INSERT or UPDATE of only its columns does by hand, for
// many rows in one batch, and for each line in a batch of its own.
var userTableTests = func() (tests []test) {
	for _, k := range userTables() {
		for name, copies := range map[string]int{"": 20, ", line by line": 1} {
			tests = append(tests, test{k.name + name, func(t *testing.T, db Database) { k.compare(t, db, copies) }})
		}
	}
	return tests
}()

// compare compares what weir and statements by hand do to two tables. One copy of the changes is flushed line by line,
// and several at once.
func (k *userTable) compare(t *testing.T, db Database, copies int) {
	need(t, db, Shared)
	d, _ := db.Driver()
	made := map[string]ddl{"SQLite": k.sqlite, "Postgres": k.postgres}[d.Name]
	if made.create == nil {
		t.Skip("the database has no such tables")
	}
	var before, after []string // statements
	both := func(sql string) {
		before = append(before, strings.ReplaceAll(sql, "{t}", "hand"), strings.ReplaceAll(sql, "{t}", table))
	}
	for _, sql := range made.create {
		both(sql)
	}
	type row struct {
		change
		id int
	}
	var rows []row
	for n, c := range changes {
		for i := range copies {
			rows = append(rows, row{c, 100*n + i + 1})
		}
	}
	for _, r := range rows {
		if r.exists {
			both(k.byHand(`INSERT INTO {t} (id, a, b) VALUES (ID, A1, 'old')`, k.old, r.id))
		}
	}
	db.Exec(t, "BEGIN;"+strings.Join(before, ";\n")+"; COMMIT")
	refused := 0
	run := Begin(t, db, func(o *fold.Options) { o.UnknownFields = fold.IgnoreUnknown })
	for _, r := range rows {
		for _, m := range r.messages {
			run.Fold(strings.NewReplacer("ID", fmt.Sprintf(k.id.json, r.id), "A1", k.a[0].json, "A2", k.a[1].json).Replace(m))
			if copies == 1 {
				run.Flush()
			}
		}
		statements := r.statements
		if slices.Contains(k.refused, r.name) {
			statements, refused = statements[:len(statements)-1], refused+1
		}
		for _, sql := range statements {
			if sql = k.byHand(sql, k.id, r.id); sql != "" {
				after = append(after, strings.ReplaceAll(sql, "{t}", "hand"))
			}
		}
	}
	run.Flush()
	db.Exec(t, "BEGIN;"+strings.Join(after, ";\n")+"; COMMIT")
	query := "SELECT " + k.rows + " FROM "
	Expect(t, db, query+table+" ORDER BY id", Rows(t, db, query+"hand ORDER BY id")...)
	if made.also != "" {
		Expect(t, db, strings.ReplaceAll(made.also, "{t}", table), Rows(t, db, strings.ReplaceAll(made.also, "{t}", "hand"))...)
	}
	Expect(t, db, "SELECT count(*) FROM weir_rejects", fmt.Sprint(refused))
}

// byHand returns a statement for a row, or "" if it would set a column that the database computes.
func (k *userTable) byHand(sql string, key sqlValue, id int) string {
	if k.generated {
		if strings.Contains(sql, "SET a") {
			return ""
		}
		sql = strings.NewReplacer(", a", "", ", A1", "", ", A2", "", ", NULL", "").Replace(sql)
	}
	return strings.NewReplacer("ID", fmt.Sprintf(key.sql, id), "A1", k.a[0].sql, "A2", k.a[1].sql).Replace(sql)
}
