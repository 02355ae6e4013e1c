package job_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

// gated is a database whose flushes wait for a gate.
type gated struct {
	sink.Sink
	began, gate   chan struct{}
	begins, opens sync.Once
}

func (g *gated) open() { g.opens.Do(func() { close(g.gate) }) }

func (g *gated) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	g.begins.Do(func() { close(g.began) })
	<-g.gate
	return g.Sink.Flush(ctx, f)
}

// TestStop_WhatStdinGaveIsWritten: each line that was read of stdin, which gives no line twice, is
// written when a run is stopped, whatever lies between stdin and the database at that moment.
func TestStop_WhatStdinGaveIsWritten(t *testing.T) {
	sinktest.Seeds(t, 10, func(t *testing.T, rnd *rand.Rand) {
		in, out, err := os.Pipe()
		testcheck.NoError(t, err)
		defer in.Close()
		each, written := 1+rnd.IntN(3000), make(chan string)
		go func() { // until in is closed for writing
			var all bytes.Buffer
			for id := 0; ; {
				from := all.Len()
				for range each {
					fmt.Fprintf(&all, `{"id":%d}`+"\n", id)
					id++
				}
				n, err := out.Write(all.Bytes()[from:])
				if all.Truncate(from + n); err != nil {
					written <- all.String()
					return
				}
			}
		}()
		c := configOf(t, source.StdinName, "table")
		c.Sources, c.Source.Stdin, c.Feed.ResumeField, c.Feed.Hello = []string{"-"}, in, "", nil
		c.BatchRows, c.ResumeStdin = 1+rnd.IntN(2000), rnd.IntN(2) == 0
		if rnd.IntN(3) == 0 {
			c.MaxRate = 100_000
		}
		enough := int64(rnd.IntN(10_000))
		g := &gated{began: make(chan struct{}), gate: make(chan struct{})}
		dest := filepath.Join(t.TempDir(), "t.db")
		if _, err := runUntil(t, c, dest, func(db sink.Sink) sink.Sink { g.Sink = db; return g }, func(p *progress.Progress) bool {
			select {
			case <-g.began:
				g.open()
				return p.Snapshot().Lines >= enough
			default:
				return false
			}
		}); err != nil {
			t.Fatal(err)
		}
		testcheck.NoError(t, out.SetWriteDeadline(time.Now()))
		all := <-written
		out.Close()
		rest, err := io.ReadAll(in)
		testcheck.NoError(t, err)
		taken := all[:len(all)-len(rest)]
		if got, want := query(t, dest, "SELECT count(*) FROM t"), fmt.Sprint(strings.Count(taken, "\n")); got != want {
			t.Errorf("%s rows, want %s for as many lines that were read (%d at a time)", got, want, each)
		}
	})
}
