package cli_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// hostileTypes are Postgres types, with the SQL that creates each, and a valid value.
var hostileTypes = []struct{ ddl, name, value string }{
	{"", "text", "x"}, {"", "varchar(200)", "x"}, {"", "char(4)", "x"}, {"", `"char"`, "x"}, {"", "name", "x"},
	{"", "smallint", "1"}, {"", "integer", "1"}, {"", "bigint", "1"}, {"", "numeric(8,2)", "1.50"}, {"", "real", "1.5"}, {"", "double precision", "1.5"},
	{"", "money", "$1.00"}, {"", "boolean", "true"}, {"", "bytea", `\x00ff`}, {"", "bit(4)", "0101"}, {"", "varbit", "0101"},
	{"", "date", "2026-01-02"}, {"", "time", "01:02:03"}, {"", "timetz", "01:02:03+00"}, {"", "timestamp", "2026-01-02 03:04:05"}, {"", "timestamptz", "2026-01-02 03:04:05+00"}, {"", "interval", "1 day"},
	{"", "uuid", "123e4567-e89b-12d3-a456-426614174000"}, {"", "json", `{"a": 1}`}, {"", "jsonb", `{"a": 1}`}, {"", "jsonpath", `$.a`}, {"", "xml", "<a/>"},
	{"", "inet", "10.0.0.1"}, {"", "cidr", "10.0.0.0/8"}, {"", "macaddr", "08:00:2b:01:02:03"}, {"", "macaddr8", "08:00:2b:01:02:03:04:05"},
	{"", "point", "(1,2)"}, {"", "box", "(2,2),(1,1)"}, {"", "path", "((1,2),(3,4))"}, {"", "circle", "<(1,2),3>"},
	{"", "tsvector", "'a' 'b'"}, {"", "tsquery", "'a' & 'b'"}, {"", "int4range", "[1,3)"}, {"", "tstzmultirange", "{}"}, {"", "pg_lsn", "0/1"}, {"", "regclass", "pg_class"}, {"", "regtype", "integer"},
	{"", "integer[]", "{1,2}"}, {"", "inet[]", "{10.0.0.1}"}, {"", "text[][]", "{{a,b},{c,d}}"},
	{"CREATE TYPE mood AS ENUM ('sad', 'ok')", "mood", "ok"},
	{"CREATE TYPE pair AS (a integer, b inet)", "pair", "(1,10.0.0.1)"},
	{"CREATE DOMAIN small AS integer CHECK (1 / VALUE > -9)", "small", "1"},
	{"CREATE DOMAIN address AS inet CHECK (masklen(VALUE) = 32)", "address", "10.0.0.1"},
	{"CREATE DOMAIN short AS text CHECK (length(VALUE) < 9 OR 1 / length(VALUE) > 0)", "short", "x"},
}

// hostileTexts are values that could be mistaken for something else: weir's own words, current and former, server
// messages that end or restart a flush, SQL, and characters that are hard to send.
var hostileTexts = []string{
	"weir: a lane has moved", "weir: a lane has moved0", "weir: the table has other columns", "weir: the table has other columns1", "weir: rows are gone", "weir: rows are gone1",
	"weir: another writer was first", "weir: another writer was first7", `weir: missing: no row of "t" has the key 1; weir`, "weir_stage", "weir.gone", "weir",
	"COPY weir_stage_0, line 1, column c1: \"x\"", "\nCOPY weir_stage_0, line 2", "line 1", "Key (id)=(1) already exists.", `duplicate key value violates unique constraint "weir_versions_pkey"`,
	`duplicate key value violates unique constraint "weir_checkpoints_pkey"`, "Failing row contains (1, null).", "division by zero", `invalid input syntax for type integer: "weir: a lane has moved0"`,
	"deadlock detected", "could not serialize access due to concurrent update", "canceling statement due to statement timeout", "canceling statement due to user request", "cached plan must not change result type",
	`relation "t" does not exist`, `column "c0" does not exist`, "terminating connection due to administrator command", "server closed the connection unexpectedly", "server refused TLS connection",
	"permission denied for table weir_checkpoints", "must be owner of table t", `null value in column "id" violates not-null constraint`, "cannot execute INSERT in a read-only transaction", "could not extend file: No space left on device",
	"current transaction is aborted, commands ignored until end of transaction block", `insert or update on table "t" violates foreign key constraint "weir_1"`, "SQLSTATE 40001", "22P02", "COMMIT",
	"'); DROP TABLE t; --", "$$; ROLLBACK; $$", "\\.", "\\N", "\\", "\t", "\n", "\r\n", "\x00", "a\x00b", "\x1b[2J", "%s%d%n", "{", "}", "[", "(", "\"", "'", "0", "1", "-1", "1e400", "NaN", "infinity", "null", "",
	"no_such_table", "no_such_type", "$[", "a &", "<a", "{{1},{2,3}}", "[3,1)", "(,)", "{\"a\":\"\\u0000\"}", strings.Repeat("x", 9000), strings.Repeat("[", 7000), "é🙂", "\U0010ffff",
}

// TestHostileValues_Postgres: whatever a value says, a run exits with 0 or 3, each line is in the table or rejected,
// and good lines are in the table.
func TestHostileValues_Postgres(t *testing.T) {
	sinktest.Seeds(t, testcheck.Rounds(2, 4), func(t *testing.T, rnd *rand.Rand) {
		l := testweir.New(t, testpg.New(t))
		db := l.Open(l.To, "")
		defer db.Close()
		columns := []string{"id integer PRIMARY KEY", "v bigint"}
		hasXML := db.QueryRow("SELECT '<a/>'::xml").Err() == nil
		usual := map[string]any{}
		for i, c := range hostileTypes {
			if c.name == "xml" && !hasXML {
				continue
			}
			if c.ddl != "" {
				l.Exec(c.ddl)
			}
			columns = append(columns, fmt.Sprintf("c%d %s", i, c.name))
			usual[fmt.Sprint("c", i)] = c.value
		}
		l.Exec("CREATE TABLE t (" + strings.Join(columns, ", ") + ")")
		if rnd.IntN(2) == 0 { // a trigger that raises what a message says, with any SQLSTATE that does not end the session
			l.Exec("ALTER TABLE t ADD code text, ADD said text")
			l.Exec(`CREATE FUNCTION says() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.code IS NOT NULL THEN
				RAISE EXCEPTION USING ERRCODE = NEW.code, MESSAGE = coalesce(NEW.said, '?'), DETAIL = NEW.said, SCHEMA = 'public', TABLE = NEW.said, CONSTRAINT = NEW.said; END IF; RETURN NEW; END $$`)
			l.Exec("CREATE TRIGGER says BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION says()")
			usual["code"] = nil
		}
		args := []string{"sync", "feed.jsonl", "--to", l.To, "--table", "t", "-q", "--retry-for", "5s", "--batch-rows", []string{"1", "5", "100000"}[rnd.IntN(3)]}
		args = append(args, [][]string{nil, {"--version-field", "v"}, {"--version-field", "v", "--version-scope", "row"}, {"--fill-only"}}[rnd.IntN(4)]...)
		t.Log(args)
		codes := []string{"22P02", "22012", "23505", "23503", "23514", "27000", "42601", "0A000", "42P01", "42703", "42804", "XX000", "P0001", "42501", "26000", "3F000"}
		said := append([]string{"weir_checkpoints", "weir_versions", "pg_class_oid_index", "t_pkey"}, hostileTexts...)
		var feed strings.Builder
		const rows = 150
		for n := range 2 * rows { // the second half are updates
			line := map[string]any{"id": n % rows, "v": n}
			if rnd.IntN(2) == 0 {
				for name, value := range usual {
					line[name] = value
				}
			}
			if n%3 == 0 {
				text := hostileTexts[rnd.IntN(len(hostileTexts))]
				switch name := fmt.Sprint("c", rnd.IntN(len(hostileTypes))); {
				case usual[name] == nil: // no XML support
				case rnd.IntN(8) == 0:
					line[name] = []any{text, map[string]any{text: text}}
				default:
					line[name] = text
				}
				if _, triggered := usual["code"]; triggered && rnd.IntN(4) == 0 {
					line["code"], line["said"] = codes[rnd.IntN(len(codes))], said[rnd.IntN(len(said))]
				}
			}
			b, err := json.Marshal(line)
			l.Check(err)
			fmt.Fprintf(&feed, "%s\n", b)
		}
		for _, part := range []string{feed.String()[:feed.Len()/2], feed.String()} {
			l.Write("feed.jsonl", part[:strings.LastIndexByte(part, '\n')+1])
			run := l.Start(args...)
			if code := run.Wait(); code != 0 && code != 3 {
				t.Fatalf("exit code %d: %s", code, run.Log())
			}
		}
		// Good lines are in the table and not rejected; other lines are in one or the other.
		l.Has("0", fmt.Sprintf("SELECT count(*) FROM generate_series(0, %d) n WHERE n %% 3 <> 0 AND NOT EXISTS (SELECT FROM t WHERE id = n)", rows-1))
		l.Has("0", fmt.Sprintf("SELECT count(*) FROM generate_series(1, %d) n WHERE (n - 1) %% 3 <> 0 AND EXISTS (SELECT FROM weir_rejects WHERE line = n)", 2*rows))
		l.Has("0", fmt.Sprintf("SELECT count(*) FROM generate_series(1, %d) n WHERE NOT EXISTS (SELECT FROM t WHERE id = (n - 1) %% %[1]d) AND NOT EXISTS (SELECT FROM weir_rejects WHERE line = n)", rows))
	})
}
