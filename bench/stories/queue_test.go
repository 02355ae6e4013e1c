package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// queues runs the story in a folder, which has to be empty at the end.
func queues(ctx context.Context, t *testing.T, c QueueConfig) (*QueueResult, error) {
	t.Helper()
	c.Dir, c.Log = t.TempDir(), logtest.New(t)
	c.Fill = func(ctx context.Context, queue, dir, level string) *exec.Cmd {
		return exec.CommandContext(ctx, os.Args[0], fillQueue, queue, dir, level)
	}
	r, err := Queue(ctx, c)
	if left, lerr := os.ReadDir(c.Dir); lerr != nil || len(left) > 0 {
		t.Errorf("it left %v: %v", left, lerr)
	}
	return r, err
}

func TestQueue_CountsLinesAndSyncs(t *testing.T) {
	testcheck.Only(t)
	const lines = 40
	r, err := queues(t.Context(), t, QueueConfig{Lines: lines, Requests: []int{1, 20}, For: time.Minute, Runs: 2})
	testcheck.NoError(t, err)
	if len(r.Queues) != 2*2*3 || len(r.Kills) != 2*3 {
		t.Fatalf("%d and %d were measured", len(r.Queues), len(r.Kills))
	}
	for _, q := range r.Queues {
		requests := int64(lines / q.Request)
		in, out := int64(0), int64(0)
		switch spool := q.Queue == "weir's spool"; {
		case spool && q.Level == sink.Full: // the folder of the first file; lines and their index
			in = 1 + 2*requests
		case spool:
			in = 1
		case q.Level == sink.Full: // lines are taken out in one transaction, and that there are none is seen in another, which writes nothing
			in, out = requests, 1
		}
		if q.Lines != lines || q.In.Syncs != in || q.Out.Syncs != out {
			t.Errorf("%s at %s: %d requests of %d lines took %d syncs in and %d out, want %d and %d", q.Queue, q.Level, requests, q.Request, q.In.Syncs, q.Out.Syncs, in, out)
		}
		if q.In.Written < int64(lines*len(queueLine)) {
			t.Errorf("%s at %s: %d lines of %d bytes wrote %d bytes", q.Queue, q.Level, lines, len(queueLine), q.In.Written)
		}
	}
	for _, k := range r.Kills {
		if k.Missing != 0 || k.Acknowledged < lines || k.Found < k.Acknowledged || k.Recovery.Least <= 0 {
			t.Errorf("%+v", k)
		}
	}
	if text := r.Page().Result; !strings.Contains(text, "At synchronous normal, SQLite") || !strings.HasSuffix(text, "0 lines of those acknowledged are missing.") {
		t.Error(text)
	}
}

// TestQueue_SeesWhatIsMissing: lines that are taken out are compared with those that were put in.
func TestQueue_SeesWhatIsMissing(t *testing.T) {
	testcheck.Only(t)
	for _, k := range queueKinds {
		q, err := k.open(t.Context(), filepath.Join(t.TempDir(), "q"), sink.Off)
		testcheck.NoError(t, err)
		for _, n := range []int{0, 1, 3} {
			line := []byte(queueLine)
			number(line, n)
			testcheck.NoError(t, q.put(t.Context(), line))
		}
		n, err := drain(t.Context(), q)
		if n != 2 || err == nil || !strings.Contains(err.Error(), "line 2 of the queue is") {
			t.Errorf("%s: %d lines, %v", k.name, n, err)
		}
		if err := q.close(); err != nil {
			t.Error(err)
		}
	}
}
