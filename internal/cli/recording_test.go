package cli_test

import (
	"database/sql"
	"fmt"
	"html"
	"os"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testweir"
)

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

// A command that only prints ends without a word where its reader has had enough.
func TestStdout_ReaderThatLeaves(t *testing.T) {
	s := stage{}.scene(t, nil)
	s.wholeFeed()
	out := s.run("weir replay flights.jsonl.gz | head -n 1", sign{exit: 1, logs: "^$"})
	if strings.Count(out, "\n") != 1 {
		t.Errorf("it printed %q", out)
	}
}
