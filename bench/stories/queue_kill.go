package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/sink"
)

// FillQueue puts requests into a queue until it is killed, and writes to out how many lines it has put there
// after each.
func FillQueue(ctx context.Context, queue, dir, level string, out io.Writer) (err error) {
	for _, k := range queueKinds {
		if k.name != queue {
			continue
		}
		q, err := k.open(ctx, dir, sink.Level(level))
		if err != nil {
			return err
		}
		request := bytes.Repeat([]byte(queueLine), killRequest)
		for n := 0; ; {
			number(request, n)
			if err := q.put(ctx, request); err != nil {
				return errors.Join(err, q.close())
			}
			n += killRequest
			if _, err := fmt.Fprintln(out, n); err != nil {
				return errors.Join(err, q.close())
			}
		}
	}
	return fmt.Errorf("there is no queue %q", queue)
}

// kills has processes fill a queue, kills them, and opens what they left.
func (c *QueueConfig) kills(ctx context.Context, dir string, k *queueKind, level sink.Level) (r QueueKill, err error) {
	r = QueueKill{Queue: k.name, Level: level}
	var took []float64
	for turn := range c.Runs {
		c.Log.Info(fmt.Sprintf("%s, synchronous %s, killed (%d of %d)", k.name, level, turn+1, c.Runs))
		path := filepath.Join(dir, "killed")
		if r.Acknowledged, err = c.kill(ctx, k, path, level); err != nil {
			return r, err
		}
		start := time.Now()
		q, err := k.open(ctx, path, level)
		if err != nil {
			return r, err
		}
		took = append(took, time.Since(start).Seconds())
		if r.Found, err = drain(ctx, q); err == nil {
			r.Missing += max(0, r.Acknowledged-r.Found)
		}
		if err := errors.Join(err, q.close(), os.RemoveAll(path)); err != nil {
			return r, err
		}
	}
	r.Recovery = report.SpreadOf(took)
	return r, nil
}

// kill has a process fill a queue and kills it, and returns how many lines it acknowledged.
func (c *QueueConfig) kill(ctx context.Context, k *queueKind, path string, level sink.Level) (acknowledged int, err error) {
	cmd := c.Fill(ctx, k.name, path, string(level))
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	killed := false
	lines := bufio.NewScanner(out)
	for start := time.Now(); lines.Scan(); { // also what it had said when it was killed
		if _, err = fmt.Sscan(lines.Text(), &acknowledged); err != nil {
			break
		}
		if !killed && (acknowledged >= c.Lines || time.Since(start) >= c.For) {
			killed, err = true, cmd.Process.Kill()
		}
	}
	if !killed {
		_ = cmd.Process.Kill() // it said something else, or has ended
	}
	ended := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, err
	case !killed:
		return 0, fmt.Errorf("the process that fills the queue ended by itself: %w: %s", ended, said.String())
	}
	return acknowledged, lines.Err()
}
