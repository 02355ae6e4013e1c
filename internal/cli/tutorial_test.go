package cli_test

import (
	"database/sql"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
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
	dir := programs(t)
	printed, commands := "", ""
	for _, b := range blocks {
		if b[1] == "" {
			if printed != b[2] {
				t.Errorf("%s\nprints\n%s\nwant\n%s", commands, printed, b[2])
			}
			continue
		}
		code, out, log := shell(dir, b[2])
		if code != 0 && code != 3 {
			t.Errorf("%s\nexit %d\n%s", b[2], code, log)
		}
		printed, commands = out, b[2]
	}
}

// The commands that the recording types end as it says, and it shows them.
func TestDocs_RecordingRuns(t *testing.T) {
	session := regexp.MustCompile(`(?m)^    \("(.*)", (\d+)\),$`).FindAllStringSubmatch(read(t, "../../docs/recording/record"), -1)
	shown := html.UnescapeString(read(t, "../../docs/recording/session.svg"))
	dir := programs(t)
	if err := os.WriteFile(filepath.Join(dir, "flights.jsonl.gz"), []byte(read(t, "../../testdata/flights.jsonl.gz")), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, s := range session {
		if !strings.Contains(shown, s[1]) {
			t.Errorf("the recording does not show %s: docs/recording/record makes it", s[1])
		}
		if strings.HasPrefix(s[1], "#") {
			continue
		}
		ran++
		if code, _, log := shell(dir, s[1]); fmt.Sprint(code) != s[2] {
			t.Errorf("%s\nexit %d, want %s\n%s", s[1], code, s[2], log)
		}
	}
	if ran < 4 {
		t.Error("did not exercise: the recording has no session")
	}
}

// programs returns a folder with weir and sqlite3.
func programs(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	for _, name := range []string{"weir", "sqlite3"} {
		if err == nil {
			err = os.Symlink(self, filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// shell runs commands with the programs of a folder in it, and returns what they print.
func shell(dir, commands string) (code int, out, log string) {
	c := exec.Command("bash", "-c", commands)
	c.Dir, c.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	var stderr strings.Builder
	c.Stderr = &stderr
	printed, err := c.Output()
	if code = c.ProcessState.ExitCode(); code < 0 && err != nil { // a signal
		code = 128 + int(c.ProcessState.Sys().(syscall.WaitStatus).Signal())
	}
	return code, string(printed), stderr.String()
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

// A command that only prints ends without a word where its reader has had enough.
func TestStdout_ReaderThatLeaves(t *testing.T) {
	l := newLive(t, "t.db")
	l.write("flights.jsonl.gz", read(t, "../../testdata/flights.jsonl.gz"))
	if code, out, log := shell(l.dir, "weir replay flights.jsonl.gz | head -n 1"); code != 0 || strings.Count(out, "\n") != 1 || log != "" {
		t.Errorf("exit %d: %q, %q", code, out, log)
	}
}
