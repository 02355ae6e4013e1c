package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every test that docs/dev/testing.md names exists, and so does every row of its table
// of inputs.
func TestDocs_TestingNamesTestsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/dev/testing.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	err = filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var b []byte
			b, err = os.ReadFile(path)
			code.Write(b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*(?:/[a-z]\w*)?`).FindAllString(string(text), -1)
	if len(names) < 100 {
		t.Errorf("only %d tests are named", len(names))
	}
	for _, name := range names {
		test, script, isScript := strings.Cut(name, "/")
		if !regexp.MustCompile(`func ` + test + `\w*\(`).MatchString(code.String()) {
			t.Errorf("the test %s is missing", test)
		}
		if isScript {
			dir := map[string]string{"TestScripts": "", "TestScripts_Postgres": "postgres", "TestScripts_Kafka": "kafka"}[test]
			if _, err := os.Stat(filepath.Join("../../testdata/script", dir, script+".txtar")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for n, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllSubmatch(text, -1) {
		if string(row[1]) != strconv.Itoa(n+1) {
			t.Fatalf("row %d is %s", n+1, row[1])
		}
		if n == 94 {
			return
		}
	}
	t.Error("rows are missing")
}
