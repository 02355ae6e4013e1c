package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fillQueue { // as queueStory starts it
		fmt.Fprintln(os.Stderr, run(context.Background(), os.Args[1:], os.Stdout))
		os.Exit(1)
	}
	os.Exit(testpg.Tests{M: m}.Run())
}

// TestRun_EachStory runs each as make stories does, as little as possible.
func TestRun_EachStory(t *testing.T) {
	testcheck.Only(t)
	testpg.New(t)                                     // fails in CI if Postgres cannot be had
	dir, err := os.MkdirTemp("/tmp", "weir-stories-") // a private server may run as another user
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for story, want := range map[string]string{"overwrite": "larger flushes:", "readers": "Queries for a row by its key:", "roundtrips": "Messages of 2 tables:", "queue": "Killed while it was filled:"} {
		var out bytes.Buffer
		page := filepath.Join(t.TempDir(), "page.html")
		if err := run(t.Context(), []string{"-quick", "-dir", dir, "-html", page, story}, &out); err != nil {
			t.Errorf("%s: %v", story, err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s printed\n%s", story, out.String())
		}
		if html, err := os.ReadFile(page); err != nil || !bytes.Contains(html, []byte(`class="plot"`)) {
			t.Errorf("%s: no plot in its page (%v)", story, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("they left %v, %v", left, err)
	}
	if err := run(t.Context(), []string{"lader"}, os.Stderr); err == nil || !strings.Contains(err.Error(), "name one story") {
		t.Error(err)
	}
}
