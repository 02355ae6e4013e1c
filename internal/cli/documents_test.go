package cli_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testweir"
)

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(([^)#]*)(#[^)]*)?\)`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Code blocks in the pages for authors of drivers and sources equal the code in the files they name.
func TestDocs_PagesShowTheCode(t *testing.T) {
	for _, page := range []string{"docs/dev/drivers.md", "docs/dev/sources.md"} {
		blocks := regexp.MustCompile("(?s)```(?:go|text)\n// (\\S+)\n(.*?)```").FindAllStringSubmatch(read(t, "../../"+page), -1)
		if len(blocks) == 0 {
			t.Errorf("did not exercise: %s shows no code", page)
		}
		for _, b := range blocks {
			if file, code := b[1], b[2]; !strings.Contains(read(t, "../../"+file), code) {
				t.Errorf("%s: %s does not have\n%s", page, file, code)
			}
		}
	}
}

// Every link in a page leads to an existing page and heading. docs/README.md lists the pages for users,
// docs/dev/README.md, docs/dev/decisions/README.md and examples/README.md the others.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	for page, text := range pages(t, "docs/*.md", "docs/dev/*.md", "docs/dev/decisions/*.md", "examples/*.md", "examples/*/*.md", "*.md") {
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
		dir, name := filepath.Split(page)
		if example, ok := strings.CutPrefix(dir, "examples/"); ok && example != "" { // examples/README.md lists its folder
			dir, name = "examples/", example+name
		}
		if index := dir + "README.md"; dir != "" && name != "README.md" && !strings.Contains(read(t, "../../"+index), "("+name+")") {
			t.Errorf("%s does not list %s", index, name)
		}
	}
}

// pages returns the files of the repository that match patterns, by name.
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

// hasHeading reports whether a page has the heading of an anchor.
func hasHeading(page, anchor string) bool {
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		if strings.ReplaceAll(strings.ToLower(dropped.ReplaceAllString(m[1], "")), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// Every test that docs/dev/testing.md and docs/dev/input.md name exists.
func TestDocs_TestingNamesTestsThatExist(t *testing.T) {
	text, code := read(t, "../../docs/dev/testing.md")+read(t, "../../docs/dev/input.md"), ""
	for _, file := range pages(t, "internal/*_test.go", "internal/*/*_test.go", "internal/*/*/*_test.go", "docs/dev/*/*_test.go") {
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
}

// A script produces each message in docs/troubleshooting.md.
func TestDocs_Troubleshooting(t *testing.T) {
	var told, tried []string
	for _, m := range regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatch(read(t, "../../docs/troubleshooting.md"), -1) {
		told = append(told, m[1])
	}
	for _, text := range pages(t, "testdata/script/*.txtar", "testdata/script/kafka/*.txtar") {
		for _, m := range regexp.MustCompile(`(?m)^prints '((?:[^']|'')*)'`).FindAllStringSubmatch(text, -1) {
			tried = append(tried, strings.ReplaceAll(m[1], "''", "'"))
		}
	}
	slices.Sort(told)
	slices.Sort(tried)
	if !slices.Equal(told, tried) {
		t.Errorf("the page has %q\nand scripts have weir print %q", told, tried)
	}
}

// sqlite3 is as much of SQLite's shell as the pages need: sqlite3 [-nullvalue NULL] FILE SQL.
func sqlite3() {
	args, null := os.Args[1:], ""
	if args[0] == "-nullvalue" {
		args, null = args[2:], args[1]
	}
	db, err := sql.Open("sqlite", "file:"+args[0])
	if err == nil {
		var rows []string
		rows, err = testweir.Rows(db, args[1])
		for _, row := range rows {
			values := strings.Split(row, "|")
			for i, v := range values {
				if v == "NULL" {
					values[i] = null
				}
			}
			fmt.Println(strings.Join(values, "|"))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
