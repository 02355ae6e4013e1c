package sinktest

import "strings"

// Changes that are refused where column a must have a value, must not be null, or must not be the second value.
var (
	withoutA    = lines{"a new row with b", "a new row with null", "a new row with its key", "a sets a to null", "a deletes and inserts b"}
	withNull    = lines{"a new row with null", "a sets a to null"}
	withSecondA = lines{"a new row with all", "a sets a", "a deletes and inserts a"}
)

// Values of column a.
var (
	ints    = [2]sqlValue{{"5000", "5000"}, {"-6000", "-6000"}}
	reals   = [2]sqlValue{{"1.5", "1.5"}, {"2.25", "2.25"}}
	bools   = [2]sqlValue{{"true", "true"}, {"false", "false"}}
	times   = [2]sqlValue{{`"2024-03-31T02:30:00+01:00"`, "'2024-03-31T02:30:00+01:00'"}, {`"infinity"`, "'infinity'"}}
	clocks  = [2]sqlValue{{`"02:30"`, "'02:30'"}, {`"24:00:00"`, "'24:00:00'"}}
	uuids   = [2]sqlValue{{`"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"}, {`"{a0eebc999c0b4ef8bb6d6bb9bd380a12}"`, "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12'"}}
	objects = [2]sqlValue{{`{"k":[1,"x"]}`, `'{"k":[1,"x"]}'`}, {`"x"`, `'"x"'`}}
	texts   = [2]sqlValue{{`["x","a,b",null]`, `ARRAY['x','a,b',NULL]`}, {`[]`, `'{}'`}}
	words   = [2]sqlValue{{`["x"]`, `'{x}'`}, {`["y","x"]`, `'{y,x}'`}}
)

// userTables are kinds of tables. A kind is an entry with its CREATE TABLE, and what is special about it.
var userTables = []userTable{
	{name: "plain", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT)`},

	// Defaults. If a value is random or a time, its kind is compared.
	{name: "a default text", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT)`},
	{name: "a default number in a text column", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 7, b TEXT)`},
	{name: "a default real", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a REAL DEFAULT 0.1, b TEXT)`, a: reals},
	{name: "a default expression", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT (upper('a') || 'b'), b TEXT)`},
	{name: "a default null", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT NULL, b TEXT)`},
	{name: "a default of now", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)`,
		rows: "id, a, b, at IS NULL"},
	{name: "a default of now in a text column", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT CURRENT_TIMESTAMP, b TEXT)`,
		rows: "id, CASE WHEN length(a) > 9 THEN 'now' ELSE a END, b"},
	{name: "a random default", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT (random()), b TEXT)`,
		postgres: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT gen_random_uuid(), b TEXT)`,
		rows:     "id, CASE WHEN length(a) > 1 THEN 'random' ELSE a END, b"},
	{name: "two defaults", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT DEFAULT 'none')`},
	{name: "a default boolean", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a boolean DEFAULT true, b text)`, a: bools},
	{name: "a default integer", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a bigint DEFAULT 9007199254740993, b text)`, a: ints},
	{name: "a default that is cast", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a bigint DEFAULT 2.5, b text)`, a: ints},
	{name: "a default decimal", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a numeric(30,20) DEFAULT 0.12345678901234567890, b text)`, a: reals},
	{name: "a default timestamptz", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a timestamptz DEFAULT now(), b text)`, a: times,
		rows: "id, CASE WHEN isfinite(a) AND extract(year FROM a) > 2024 THEN 'now' ELSE a::text END, b"},
	{name: "a default timestamp", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a timestamp DEFAULT now(), b text)`, a: times,
		rows: "id, CASE WHEN isfinite(a) AND extract(year FROM a) > 2024 THEN 'now' ELSE a::text END, b"},
	{name: "a default date", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a date DEFAULT 'epoch', b text)`, a: times},
	{name: "a default time", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a time DEFAULT '01:02:03.456', b text)`, a: clocks},
	{name: "a default interval", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a interval DEFAULT '1 day', b text)`, a: clocks},
	{name: "a default uuid", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a uuid DEFAULT gen_random_uuid(), b text)`, a: uuids,
		rows: "id, CASE WHEN a::text NOT LIKE 'a0eebc99%' THEN 'random' ELSE a::text END, b"},
	{name: "a default jsonb", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a jsonb DEFAULT '{}', b text)`, a: objects},
	{name: "a default json", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a json DEFAULT to_json(1), b text)`, a: objects},
	{name: "a default bytea", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a bytea DEFAULT '\x00', b text)`},
	{name: "a default inet", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a inet DEFAULT '::1', b text)`,
		a: [2]sqlValue{{`"10.0.0.1/8"`, "'10.0.0.1/8'"}, {`"::ffff"`, "'::ffff'"}}},
	{name: "a default range", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a int4range DEFAULT 'empty', b text)`,
		a: [2]sqlValue{{`"[1,3]"`, "'[1,4)'"}, {`"(,)"`, "'(,)'"}}},
	{name: "a default varchar", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a varchar(40) DEFAULT 7, b text)`},

	// Arrays.
	{name: "an array", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a text[], b text)`, a: texts},
	{name: "a default array", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a text[] DEFAULT array[1], b text)`, a: texts},
	{name: "an array of arrays", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a int[][] NOT NULL DEFAULT '{}', b text)`,
		a: [2]sqlValue{{"[[1,2],[3,null]]", "'{{1,2},{3,NULL}}'"}, {"[]", "'{}'"}}, refused: withNull},
	{name: "an array of jsonb", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a jsonb[], b text)`,
		a: [2]sqlValue{{`[{"k":1},"x",null]`, `ARRAY['{"k":1}','"x"',NULL]::jsonb[]`}, {`[1,true,"a\"b"]`, `ARRAY['1','true','"a\"b"']::jsonb[]`}}},

	// Keys that the database numbers, and columns.
	{name: "a key that is serial", postgres: `CREATE TABLE {t} (id serial PRIMARY KEY, a text, b text)`},
	{name: "a key that is an identity by default", postgres: `CREATE TABLE {t} (id int GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, a text, b text)`},
	{name: "a key that is always an identity", postgres: `CREATE TABLE {t} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text, b text)`,
		overriding: " OVERRIDING SYSTEM VALUE"},
	{name: "a serial", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a serial, b text)`, a: ints, refused: withNull,
		rows: "id, CASE WHEN a > 0 AND a < 5000 THEN 'next' ELSE a::text END, b"},
	{name: "an identity by default", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a int GENERATED BY DEFAULT AS IDENTITY, b text)`, a: ints, refused: withNull,
		rows: "id, CASE WHEN a > 0 AND a < 5000 THEN 'next' ELSE a::text END, b"},
	{name: "always an identity", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a int GENERATED ALWAYS AS IDENTITY, b text)`, generated: true,
		rows: "id, a > 0, b"},
	{name: "a serial next to a key", postgres: `CREATE TABLE {t} (n bigserial UNIQUE, id int PRIMARY KEY, a text, b text)`,
		rows: "id, a, b, n > 0"},
	{name: "AUTOINCREMENT", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY AUTOINCREMENT, a TEXT, b TEXT)`},
	{name: "a rowid next to the key", sqlite: `CREATE TABLE {t} (n INTEGER PRIMARY KEY, id INTEGER UNIQUE, a TEXT, b TEXT)`,
		rows: "id, a, b, n IS NULL"},
	{name: "a key that is text", create: `CREATE TABLE {t} (id TEXT PRIMARY KEY NOT NULL, a TEXT, b TEXT)`,
		id: sqlValue{`"k%d"`, "'k%d'"}, old: sqlValue{"", "'k%d'"}},
	{name: "a key that is uuid", postgres: `CREATE TABLE {t} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a text, b text)`,
		id: sqlValue{`"A0EEBC99-9C0B-4EF8-BB6D-00000000%04d"`, "'a0eebc99-9c0b-4ef8-bb6d-00000000%04d'"}, old: sqlValue{"", "'a0eebc99-9c0b-4ef8-bb6d-00000000%04d'"}},
	{name: "a key that is deferred, and an index that is not", postgres: `CREATE TABLE {t} (id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED, a text, b text);
		CREATE UNIQUE INDEX ON {t} (id)`},

	// Generated columns.
	{name: "a generated column", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT GENERATED ALWAYS AS (b || '!') STORED, b TEXT)`, generated: true},
	{name: "a virtual column", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT AS (b || '!') VIRTUAL, b TEXT)`, generated: true},

	// Constraints.
	{name: "NOT NULL", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT)`, refused: withoutA},
	{name: "NOT NULL with a default", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT NOT NULL DEFAULT 'none', b TEXT)`, refused: withNull},
	{name: "a check", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT CHECK (a <> 'y'), b TEXT)`, refused: withSecondA},
	{name: "a check of two columns", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT, CHECK (a IS NOT NULL OR b IS NOT NULL))`,
		refused: lines{"a new row with null", "a new row with its key"}},
	{name: "an index", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT); CREATE INDEX {t}_a ON {t} (a)`},
	{name: "an index of an expression", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT); CREATE INDEX {t}_a ON {t} (lower(a)) WHERE b IS NOT NULL`},
	{name: "a second unique index", create: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT); CREATE UNIQUE INDEX {t}_a ON {t} (id, a)`},
	{name: "a foreign key", create: `CREATE TABLE {t}_parent (name TEXT PRIMARY KEY); INSERT INTO {t}_parent VALUES ('x');
		CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT REFERENCES {t}_parent (name), b TEXT)`, refused: withSecondA},
	{name: "a deferred foreign key", create: `CREATE TABLE {t}_parent (name TEXT PRIMARY KEY); INSERT INTO {t}_parent VALUES ('x');
		CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT REFERENCES {t}_parent (name) DEFERRABLE INITIALLY DEFERRED, b TEXT)`, refused: withSecondA},
	{name: "a foreign key with a default", create: `CREATE TABLE {t}_parent (name TEXT PRIMARY KEY); INSERT INTO {t}_parent VALUES ('x'), ('none');
		CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none' REFERENCES {t}_parent (name), b TEXT)`, refused: withSecondA},
	{name: "a deferred unique constraint", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a text, b text, UNIQUE (id, a) DEFERRABLE INITIALLY DEFERRED)`},
	{name: "a constraint trigger", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a text, b text);
		CREATE FUNCTION {t}_check() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.a = 'y' THEN RAISE 'no y'; END IF; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER {t}_c AFTER INSERT OR UPDATE ON {t} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {t}_check()`,
		refused: withSecondA},

	// Domains and enums.
	{name: "a domain", postgres: `CREATE DOMAIN {t}_word AS text CHECK (VALUE <> 'y'); CREATE TABLE {t} (id int PRIMARY KEY, a {t}_word, b text)`, refused: withSecondA},
	{name: "a domain with a default", postgres: `CREATE DOMAIN {t}_word AS text DEFAULT 'none'; CREATE TABLE {t} (id int PRIMARY KEY, a {t}_word, b text)`},
	{name: "a domain without NULL", postgres: `CREATE DOMAIN {t}_word AS text NOT NULL; CREATE TABLE {t} (id int PRIMARY KEY, a {t}_word, b text)`, refused: withoutA},
	{name: "a domain of a key", postgres: `CREATE DOMAIN {t}_id AS int CHECK (VALUE > 0); CREATE TABLE {t} (id {t}_id PRIMARY KEY, a text, b text)`},
	{name: "a domain of arrays", postgres: `CREATE DOMAIN {t}_words AS text[] CHECK (cardinality(VALUE) < 3); CREATE TABLE {t} (id int PRIMARY KEY, a {t}_words, b text)`, a: words},
	{name: "a domain of a domain", postgres: `CREATE DOMAIN {t}_low AS numeric(6,2) CHECK (VALUE < 9); CREATE DOMAIN {t}_some AS {t}_low NOT NULL DEFAULT 1;
		CREATE TABLE {t} (id int PRIMARY KEY, a {t}_some, b text)`, a: reals, refused: withNull},
	{name: "an enum", postgres: `CREATE TYPE {t}_kind AS ENUM ('x', 'y'); CREATE TABLE {t} (id int PRIMARY KEY, a {t}_kind, b text)`},
	{name: "an enum without a label", postgres: `CREATE TYPE {t}_kind AS ENUM ('x', 'none'); CREATE TABLE {t} (id int PRIMARY KEY, a {t}_kind NOT NULL DEFAULT 'none', b text)`,
		refused: append(append(lines{}, withNull...), withSecondA...)},
	{name: "an array of an enum", postgres: `CREATE TYPE {t}_kind AS ENUM ('x', 'y'); CREATE TABLE {t} (id int PRIMARY KEY, a {t}_kind[] DEFAULT '{}', b text)`, a: words},
	{name: "a composite type", postgres: `CREATE TYPE {t}_pair AS (n int, s text); CREATE TABLE {t} (id int PRIMARY KEY, a {t}_pair, b text)`,
		a: [2]sqlValue{{`"(1,x)"`, "'(1,x)'"}, {`"(,\"\")"`, `'(,"")'`}}},

	// Partitions and inheritance.
	{name: "partitions by range", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a text DEFAULT 'none', b text) PARTITION BY RANGE (id);
		CREATE TABLE {t}_low PARTITION OF {t} FOR VALUES FROM (0) TO (510); CREATE TABLE {t}_high PARTITION OF {t} DEFAULT`},
	{name: "partitions by hash", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, a text, b text NOT NULL DEFAULT 'none') PARTITION BY HASH (id);
		CREATE TABLE {t}_even PARTITION OF {t} FOR VALUES WITH (MODULUS 2, REMAINDER 0); CREATE TABLE {t}_odd PARTITION OF {t} FOR VALUES WITH (MODULUS 2, REMAINDER 1)`,
		refused: lines{"a sets b to null"}},
	{name: "partitions with other columns", postgres: `CREATE TABLE {t} (id int PRIMARY KEY, gone int, a text, b text) PARTITION BY RANGE (id);
		ALTER TABLE {t} DROP gone; CREATE TABLE {t}_all (b text, a text, id int NOT NULL); ALTER TABLE {t} ATTACH PARTITION {t}_all DEFAULT`},

	// Kinds of tables in SQLite.
	{name: "STRICT", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT) STRICT`},
	{name: "STRICT with a default", sqlite: `CREATE TABLE {t} (id INT PRIMARY KEY, a ANY DEFAULT 1, b TEXT) STRICT`},
	{name: "STRICT with numbers", sqlite: `CREATE TABLE {t} (id INT PRIMARY KEY, a REAL NOT NULL DEFAULT 1, b TEXT) STRICT`, a: reals, refused: withNull},
	{name: "WITHOUT ROWID", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT, b TEXT) WITHOUT ROWID`},
	{name: "WITHOUT ROWID with a default", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT) WITHOUT ROWID`},
	{name: "WITHOUT ROWID, STRICT and generated", sqlite: `CREATE TABLE {t} (id TEXT PRIMARY KEY, b TEXT, a TEXT AS (b || '!') STORED) WITHOUT ROWID, STRICT`, generated: true,
		id: sqlValue{`"k%d"`, "'k%d'"}, old: sqlValue{"", "'k%d'"}},
	{name: "DECIMAL", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a DECIMAL(10,2) DEFAULT 0.1, b TEXT)`,
		a: [2]sqlValue{{`"10.50"`, "'10.50'"}, {"-7.0", "'-7.0'"}}},
	{name: "a column without a type", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a, b TEXT)`, a: reals},
	{name: "columns that compare without case", sqlite: `CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT COLLATE NOCASE, b TEXT)`,
		a: [2]sqlValue{{`"x"`, "'x'"}, {`"X"`, "'X'"}}},
	{name: "a key that compares without case", sqlite: `CREATE TABLE {t} (id TEXT COLLATE NOCASE PRIMARY KEY, a TEXT, b TEXT)`,
		id: sqlValue{`"ID%d"`, "'ID%d'"}, old: sqlValue{"", "'id%d'"}},

	// Triggers.
	{name: "triggers after a write", also: written, updates: true,
		sqlite: logged + `
		CREATE TRIGGER {t}_i AFTER INSERT ON {t} BEGIN INSERT INTO {t}_log VALUES ('inserted ' || coalesce(NEW.a, 'nothing'), NEW.id); END;
		CREATE TRIGGER {t}_u AFTER UPDATE ON {t} BEGIN INSERT INTO {t}_log VALUES ('updated ' || coalesce(OLD.a, 'nothing'), NEW.id); END;
		CREATE TRIGGER {t}_d AFTER DELETE ON {t} BEGIN INSERT INTO {t}_log VALUES ('deleted', OLD.id); END`,
		postgres: logged + loggedBy(`AFTER INSERT OR UPDATE OR DELETE`)},
	{name: "a trigger of one column", also: written, updates: true,
		sqlite:   logged + `CREATE TRIGGER {t}_u AFTER UPDATE OF a ON {t} BEGIN INSERT INTO {t}_log VALUES ('updated a', NEW.id); END`,
		postgres: logged + loggedBy(`AFTER UPDATE`, `WHEN (OLD.a IS DISTINCT FROM NEW.a)`)},
	{name: "triggers before a write", also: written, updates: true,
		sqlite: logged + `
		CREATE TRIGGER {t}_i BEFORE INSERT ON {t} BEGIN INSERT INTO {t}_log VALUES ('inserts', NEW.id); END;
		CREATE TRIGGER {t}_u BEFORE UPDATE ON {t} BEGIN INSERT INTO {t}_log VALUES ('updates', NEW.id); END`,
		postgres: logged + loggedBy(`BEFORE INSERT OR UPDATE OR DELETE`)},
	{name: "a trigger that changes the row", updates: true,
		sqlite:   logged + `CREATE TRIGGER {t}_i AFTER INSERT ON {t} BEGIN UPDATE {t} SET b = coalesce(NEW.b, '') || '!' WHERE id = NEW.id; END`,
		postgres: logged + changedBy(`BEFORE INSERT`, `NEW.b := coalesce(NEW.b, '') || '!'`)},
	{name: "updated_at", updates: true, rows: "id, a, b, at IS NULL",
		sqlite: logged + `ALTER TABLE {t} ADD at TEXT;
		CREATE TRIGGER {t}_u AFTER UPDATE ON {t} WHEN NEW.at IS OLD.at BEGIN UPDATE {t} SET at = CURRENT_TIMESTAMP WHERE id = NEW.id; END`,
		postgres: logged + `ALTER TABLE {t} ADD at timestamptz;` + changedBy(`BEFORE UPDATE`, `NEW.at := now()`)},
	{name: "a trigger that fills in a value", postgres: logged + changedBy(`BEFORE INSERT OR UPDATE`, `NEW.a := coalesce(NEW.a, 'filled')`), updates: true},
	{name: "a trigger that skips the row", postgres: logged + changedBy(`BEFORE INSERT OR UPDATE`, `IF NEW.a = 'y' THEN RETURN NULL; END IF`), updates: true},
	{name: "a trigger that raises", also: written, updates: true, refused: withSecondA,
		sqlite: logged + `
		CREATE TRIGGER {t}_i BEFORE INSERT ON {t} WHEN NEW.a = 'y' BEGIN SELECT RAISE(ABORT, 'no y'); END;
		CREATE TRIGGER {t}_u AFTER UPDATE ON {t} WHEN NEW.a = 'y' BEGIN INSERT INTO {t}_log VALUES ('undone', 0); SELECT RAISE(FAIL, 'no y'); END`,
		postgres: logged + changedBy(`BEFORE INSERT OR UPDATE`, `IF NEW.a = 'y' THEN RAISE 'no y'; END IF`)},
}

// A table with a log for its triggers, and what they wrote.
const (
	logged  = `CREATE TABLE {t}_log (what TEXT, id INTEGER); CREATE TABLE {t} (id INTEGER PRIMARY KEY, a TEXT DEFAULT 'none', b TEXT);`
	written = `SELECT what, id, count(*) FROM {t}_log GROUP BY what, id ORDER BY what, id`
)

// loggedBy returns a trigger of Postgres that writes to the log.
func loggedBy(event string, when ...string) string {
	return `CREATE FUNCTION {t}_logs() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO {t}_log VALUES (concat_ws(' ', TG_OP, OLD.a, NEW.a), coalesce(NEW.id, OLD.id)); RETURN coalesce(NEW, OLD); END $$;
		CREATE TRIGGER {t}_l ` + event + ` ON {t} FOR EACH ROW ` + strings.Join(when, "") + ` EXECUTE FUNCTION {t}_logs()`
}

// changedBy returns a trigger of Postgres that changes the row.
func changedBy(event, how string) string {
	return `CREATE FUNCTION {t}_changes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + how + `; RETURN NEW; END $$;
		CREATE TRIGGER {t}_c ` + event + ` ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_changes()`
}
