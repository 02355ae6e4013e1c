package cli_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The commands of the tutorial print what it says.
func TestDocs_TutorialRuns(t *testing.T) {
	_, page, found := strings.Cut(read(t, "../../docs/mapping.md"), "\n## Tutorial\n")
	page, _, ends := strings.Cut(page, "\n## ")
	blocks := regexp.MustCompile("(?s)```(\\w*)\n(.*?)```").FindAllStringSubmatch(page, -1)
	if !found || !ends || len(blocks) < 5 {
		t.Fatal("did not exercise: the page has no tutorial")
	}
	dir := t.TempDir()
	self, err := os.Executable()
	for _, name := range []string{"weir", "sqlite3"} {
		if err == nil {
			err = os.Symlink(self, filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	printed, commands := "", ""
	for _, b := range blocks {
		if b[1] == "" {
			if printed != b[2] {
				t.Errorf("%s\nprints\n%s\nwant\n%s", commands, printed, b[2])
			}
			continue
		}
		c := exec.Command("sh", "-c", b[2])
		c.Dir, c.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		var log strings.Builder
		c.Stderr = &log
		out, err := c.Output()
		if err != nil && c.ProcessState.ExitCode() != 3 {
			t.Errorf("%s\n%v\n%s", b[2], err, log.String())
		}
		printed, commands = string(out), b[2]
	}
}

// sqlite3 is as much of SQLite's shell as the tutorial needs.
func sqlite3() {
	db, err := sql.Open("sqlite", "file:"+os.Args[1])
	if err == nil {
		var out string
		out, err = ask(db, os.Args[2])
		fmt.Print(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
