package job_test

import (
	"bytes"
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
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/testcheck"
)

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
		began, gate := make(chan struct{}), make(chan struct{})
		var begins, opens sync.Once
		dest := filepath.Join(t.TempDir(), "t.db")
		if _, err := runUntil(t, c, dest, faulty(sinktest.Flushes(func(sinktest.Call) (f sinktest.Fault) { // flushes wait for a gate
			begins.Do(func() { close(began) })
			<-gate
			return f
		})), func(p *progress.Progress) bool {
			select {
			case <-began:
				opens.Do(func() { close(gate) })
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
		has(t, dest, fmt.Sprint(strings.Count(taken, "\n")), "SELECT count(*) FROM t")
	})
}
