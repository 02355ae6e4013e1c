package cli_test

import (
	"database/sql"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testweir"
)

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// The code that docs/drivers.md shows is that of the files that it names.
func TestDocs_DriversShowsTheCode(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```(?:go|text)\n// (\\S+)\n(.*?)```").FindAllStringSubmatch(read(t, "../../docs/drivers.md"), -1)
	if len(blocks) == 0 {
		t.Error("did not exercise: the page shows no code")
	}
	for _, b := range blocks {
		if file, code := b[1], b[2]; !strings.Contains(read(t, "../../"+file), code) {
			t.Errorf("%s does not have\n%s", file, code)
		}
	}
}

// Every link of a page leads to a page, and to a heading of it where it names one; the
// index has all pages.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	index := read(t, "../../docs/README.md")
	for page, text := range pages(t, "docs/*.md", "docs/dev/*.md", "README.md", "SECURITY.md") {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor := "../../"+page, m[2]
			if strings.Contains(m[1], "://") {
				continue
			}
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(target), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", page, err)
				continue
			}
			if anchor != "" && !hasHeading(read(t, target), anchor[1:]) {
				t.Errorf("%s: %s has no heading %s", page, target, anchor)
			}
		}
		if name, ok := strings.CutPrefix(page, "docs/"); ok && name != "README.md" && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}

// pages returns the files of the repository that patterns match, by their names.
func pages(t testing.TB, patterns ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range patterns {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		for _, path := range found {
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				all[strings.TrimPrefix(path, "../../")] = read(t, path)
			}
		}
	}
	return all
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	testcheck.NoError(t, err)
	return string(text)
}

// hasHeading reports whether a page has the heading that an anchor names.
func hasHeading(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		if strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(m[1], "")), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// Every test that docs/dev/testing.md names exists, and so does every row of its table
// of inputs.
func TestDocs_TestingNamesTestsThatExist(t *testing.T) {
	text, code := read(t, "../../docs/dev/testing.md"), ""
	for _, file := range pages(t, "internal/*_test.go", "internal/*/*_test.go", "internal/*/*/*_test.go") {
		code += file
	}
	names := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*(?:/[a-z]\w*)?`).FindAllString(text, -1)
	if len(names) < 100 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, name := range names {
		test, script, isScript := strings.Cut(name, "/")
		if !regexp.MustCompile(`func ` + test + `\w*\(`).MatchString(code) {
			t.Errorf("the test %s is missing", test)
		}
		if isScript {
			dir := map[string]string{"TestScripts": "", "TestScripts_Postgres": "postgres", "TestScripts_Both": "both", "TestScripts_Kafka": "kafka"}[test]
			if _, err := os.Stat(filepath.Join("../../testdata/script", dir, script+".txtar")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for n, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(text, -1) {
		if row[1] != strconv.Itoa(n+1) {
			t.Fatalf("row %d is %s", n+1, row[1])
		}
		if n == 94 {
			return
		}
	}
	t.Error("rows are missing")
}

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
	"the batch at offset … cannot be read":                                   `weir sync kafka://BROKER/t --partitions 0 --until-end --to x.db`, // where one is damaged
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
			if strings.Contains(command, "BROKER") {
				c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
				c.Produce("t", 0, `{"id":1,"s":"here"}`)
				c.Damage("t", "here", -1, func(b []byte) { b[len(b)-1] ^= 1 })
				command = strings.ReplaceAll(command, "BROKER", c.Addr())
			}
			p := l.begin(command)
			p.Wait()
			if out := read(t, p.out) + p.Log(); !regexp.MustCompile(wildcards(h[1])).MatchString(out) {
				t.Errorf("%s\nprints\n%s", command, out)
			}
		})
	}
}

// The recording shows the commands that it types.
func TestDocs_Recording(t *testing.T) {
	session := typed.FindAllStringSubmatch(read(t, "../../docs/recording/record"), -1)
	shown := html.UnescapeString(read(t, "../../docs/recording/session.svg"))
	for _, s := range session {
		if !strings.Contains(shown, s[1]) {
			t.Errorf("the recording does not show %s: docs/recording/record makes it", s[1])
		}
	}
	if len(session) < 4 {
		t.Error("did not exercise: the recording has no session")
	}
}

// sqlite3 is as much of SQLite's shell as the tutorial needs.
func sqlite3() {
	db, err := sql.Open("sqlite", "file:"+os.Args[1])
	if err == nil {
		var rows []string
		rows, err = testweir.Rows(db, os.Args[2])
		for _, row := range rows {
			fmt.Println(row)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
