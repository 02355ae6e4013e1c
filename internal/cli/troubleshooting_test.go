package cli_test

import (
	"regexp"
	"strings"
	"testing"
)

// troubles are commands that make weir print the messages of docs/troubleshooting.md, in folders with
// a feed called f.jsonl.
var troubles = map[string]string{
	`the key field "…" is missing`:                                               `weir sync f.jsonl --to x.db --key flight`,
	"this is CSV; weir reads one object a line":                                  `printf 'id,a\n1,2\n' >c.csv; weir sync c.csv --to x.db`,
	"not JSON: … (first: line 1)":                                                `printf 'x\nx\n' >x.jsonl; weir sync x.jsonl --to x.db`,
	`column "…" is … and cannot take string …`:                                   `sqlite3 x.db 'CREATE TABLE f (id int PRIMARY KEY, a int)'; echo '{"id":1,"a":"x"}' >f.jsonl; weir sync f.jsonl --to x.db`,
	"rejected lines: …, more than --max-rejects …":                               `printf 'x\nx\n' >x.jsonl; weir sync x.jsonl --to x.db --max-rejects 1`,
	"the last line (line …, byte …) has no end yet; it is left for the next run": `printf '{"id":1' >t.jsonl; weir sync t.jsonl --to x.db`,
	"is not the file that was read before":                                       `weir sync f.jsonl --to x.db; printf '{"id":7,"a":7}\n{"id":8,"a":8}\n{"id":9}\n' >f.jsonl; weir sync f.jsonl --to x.db`,
	"gzip truncated after … decompressed bytes":                                  `gzip -c f.jsonl | head -c 30 >t.gz; weir sync t.gz --to x.db --table t`,
	"was read to its end before and has not changed: nothing to do":              `weir sync f.jsonl --to x.db; weir sync f.jsonl --to x.db`,
	"no file matches": `weir sync 'no*.jsonl' --to x.db`,
	"was read up to line … with other settings":                              `weir sync f.jsonl --to x.db; weir sync f.jsonl --to x.db --null keep`,
	`the table "…" of this checkpoint (…) is missing`:                        `weir sync f.jsonl --to x.db; sqlite3 x.db 'DROP TABLE f'; echo '{"id":3}' >>f.jsonl; weir sync f.jsonl --to x.db`,
	`another run holds … of job "…"`:                                         `weir sync f.jsonl --to x.db`, // beside one that follows the file
	`has no primary key or unique index over exactly "…"`:                    `sqlite3 x.db 'CREATE TABLE f (id int)'; weir sync f.jsonl --to x.db`,
	`has no column "…" for the key`:                                          `sqlite3 x.db 'CREATE TABLE f (a int)'; weir sync f.jsonl --to x.db`,
	`ignored, without a column: "…"`:                                         `sqlite3 x.db 'CREATE TABLE f (id int PRIMARY KEY)'; weir sync f.jsonl --to x.db`,
	"database is locked (another program is writing to it)":                  `weir sync f.jsonl --to x.db --retry-for 10ms`, // while it is
	"failed to connect to …: connect: connection refused":                    `weir sync f.jsonl --to 'postgres://weir@127.0.0.1:1/x?sslmode=disable' --retry-for 10ms`,
	"the database's folder: … no such file or directory":                     `weir sync f.jsonl --to no/such/x.db`,
	"connect to …: connect: connection refused; reconnecting in …":           `weir sync tcp://127.0.0.1:1 --to x.db --table f --retry-for 1s`,
	"suggests no name for the table":                                         `weir sync tcp://127.0.0.1:1 --to x.db`,
	"is damaged: the … bytes from byte … on are not those that were written": `mkdir s; echo '{"id":1}' >s/00000000000000000000-20261121T104500.000Z.jsonl; touch s/00000000000000000000-20261121T104500.000Z.index s/00000000000000000100-20261121T104501.000Z.jsonl; weir sync tcp-listen://127.0.0.1:0 --to x.db --table f --spool s`,
	"unknown flag: …; did you mean …":                                        `weir sync f.jsonl --to x.db --idle-timout 3s`,
	"writing the metrics file …: no such file or directory":                  `weir sync f.jsonl --to x.db --metrics-file no/such/weir.prom`,
}

// Each message of docs/troubleshooting.md is one that weir prints.
func TestDocs_Troubleshooting(t *testing.T) {
	headings := regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatch(read(t, "../../docs/troubleshooting.md"), -1)
	if len(headings) != len(troubles) {
		t.Errorf("the page has %d messages, and %d are tried", len(headings), len(troubles))
	}
	for _, h := range headings {
		t.Run(h[1], func(t *testing.T) {
			t.Parallel()
			command, ok := troubles[h[1]]
			if !ok {
				t.Fatal("there is no command that prints it")
			}
			l := stage{}.scene(t, nil)
			l.To = "x.db"
			l.file("f.jsonl", `{"id":1,"a":1}`+"\n"+`{"id":2,"a":2}`+"\n")
			switch {
			case strings.HasPrefix(h[1], "another run"):
				l.Start("sync", "f.jsonl", "--follow", "--to", "x.db")
				l.Becomes("2", "SELECT count(*) FROM f")
			case strings.HasPrefix(h[1], "database is locked"):
				db := l.Open("x.db", "rwc")
				defer db.Close()
				tx, err := db.Begin()
				l.Check(err)
				defer tx.Rollback()
				_, err = tx.Exec("CREATE TABLE f (id int PRIMARY KEY)")
				l.Check(err)
			}
			p := l.begin(command)
			p.Wait()
			if out := read(t, p.out) + p.Log(); !regexp.MustCompile(wildcards(h[1])).MatchString(out) {
				t.Errorf("%s\nprints\n%s", command, out)
			}
		})
	}
}
