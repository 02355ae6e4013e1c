package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
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
	testcheck.NoError(t, err)
	defer os.RemoveAll(dir)
	for story, want := range map[string]string{"overwrite": "larger flushes:", "readers": "Queries for a row by its key:", "roundtrips": "Messages of 2 tables:", "queue": "Killed while it was filled:", "ladder": "7 weir"} {
		var out bytes.Buffer
		if err := run(t.Context(), []string{"-quick", "-dir", dir, story}, &out); err != nil {
			t.Errorf("%s: %v", story, err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s printed\n%s", story, out.String())
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("they left %v, %v", left, err)
	}
	if err := run(t.Context(), []string{"lader"}, os.Stderr); err == nil || !strings.Contains(err.Error(), "name one story") {
		t.Error(err)
	}
}

// TestLadder_OfAFeed climbs with a feed of the user's into both databases, and leaves nothing.
func TestLadder_OfAFeed(t *testing.T) {
	testcheck.Only(t)
	dir := t.TempDir()
	for _, to := range []string{filepath.Join(dir, "flights.db"), testpg.New(t)} {
		var out bytes.Buffer
		testcheck.NoError(t, run(t.Context(), []string{"-to", to, "-for", "20ms", "-messages", "1000", "-runs", "1", "ladder", "../../testdata/flights.jsonl.gz"}, &out))
		for _, want := range []string{"flights.jsonl.gz: 1,000 messages", "written in seven ways", "a transaction each", "6 batched upserts", "7 weir", "a lag of at most 2s, and that a power cut takes nothing"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("into %s it does not print %q:\n%s", to, want, out.String())
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	for _, args := range [][]string{{"-runs", "0", "ladder"}, {"-to", filepath.Join(dir, "t.db"), "-key", "nonesuch", "ladder", "../../testdata/flights.jsonl.gz"}} {
		if err := run(t.Context(), args, os.Stderr); err == nil {
			t.Errorf("%v succeeds", args)
		}
	}
}
