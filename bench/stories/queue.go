package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/weirsync/weir/bench/ladder"
	"github.com/weirsync/weir/bench/report"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// QueueConfig is what is measured.
type QueueConfig struct {
	Dir      string // on the disk that is measured
	Lines    int    // at most
	Requests []int  // lines that are put into the queue at once, and acknowledged together
	// For is how long the first way puts lines into its queue at most, of each size of requests. What it has
	// put there by then is the work of all ways. A process that is killed fills its queue as long.
	For  time.Duration
	Runs int // how often everything is measured
	// Fill is the command that calls FillQueue with these arguments, in a process that can be killed.
	Fill func(ctx context.Context, queue, dir, level string) *exec.Cmd
	Log  *slog.Logger
}

// A QueueResult is what was measured.
type QueueResult struct {
	Disk   string      `json:"disk"`
	Runs   int         `json:"runs"`
	Queues []QueueCost `json:"queues"`
	Kills  []QueueKill `json:"kills"`
}

// A QueueCost is what it costs to put lines into a queue and to take them out.
type QueueCost struct {
	Queue   string      `json:"queue"`
	Level   sink.Level  `json:"synchronous"`
	Request int         `json:"lines_of_a_request"`
	Lines   int         `json:"lines"`
	In      ladder.Cost `json:"in"`
	Out     ladder.Cost `json:"out"`
	Lost    string      `json:"lost_in_a_power_cut"`
}

// A QueueKill is a process that filled a queue until it was killed.
type QueueKill struct {
	Queue        string        `json:"queue"`
	Level        sink.Level    `json:"synchronous"`
	Acknowledged int           `json:"lines_acknowledged"` // in the last run
	Found        int           `json:"lines_found"`
	Missing      int           `json:"lines_missing"`    // of those acknowledged, in all runs
	Recovery     report.Spread `json:"recovery_seconds"` // until the queue is open again
}

const (
	takeLines   = 1000 // that are taken out at once
	killRequest = 100  // lines of a request before a kill
)

// queueLevels are the levels, the one that is slowest first.
var queueLevels = []sink.Level{sink.Full, sink.Normal, sink.Off}

// Queue puts lines into durable queues and takes them out: SQLite's, as a table, and weir's spool.
func Queue(ctx context.Context, c QueueConfig) (r *QueueResult, err error) {
	place, err := ladder.NewPlace(c.Dir, "."+ladder.PlacePrefix, c.Log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.Remove()) }()
	dir := filepath.Dir(place.Dir)
	if whole, err := filepath.Abs(dir); err == nil {
		dir = whole
	}
	r = &QueueResult{Disk: dir, Runs: c.Runs}
	for _, request := range c.Requests {
		costs, err := c.costs(ctx, place.Dir, request)
		if err != nil {
			return nil, err
		}
		r.Queues = append(r.Queues, costs...)
	}
	for _, k := range queueKinds {
		for _, level := range queueLevels {
			kill, err := c.kills(ctx, place.Dir, k, level)
			if err != nil {
				return nil, fmt.Errorf("%s at %s, killed: %w", k.name, level, cmp.Or(ctx.Err(), err))
			}
			r.Kills = append(r.Kills, kill)
		}
	}
	return r, nil
}

// costs measures both queues at all levels, in turns. The first run of the first one decides how many lines all others
// get.
func (c *QueueConfig) costs(ctx context.Context, dir string, request int) (all []QueueCost, err error) {
	in, out := map[string][]ladder.Timing{}, map[string][]ladder.Timing{}
	lines := 0
	for turn := range c.Runs {
		c.Log.Info(fmt.Sprintf("requests of %s (%d of %d)", quantity.Count(int64(request), "line"), turn+1, c.Runs))
		for _, level := range queueLevels {
			for _, k := range queueKinds {
				work := queueWork{lines: cmp.Or(lines, c.Lines), request: request}
				if lines == 0 {
					work.limit = c.For
				}
				n, put, taken, err := work.through(ctx, k, filepath.Join(dir, "queue"), level)
				if err != nil {
					return nil, fmt.Errorf("%s at %s: %w", k.name, level, cmp.Or(ctx.Err(), err))
				}
				name := k.name + string(level)
				in[name], out[name], lines = append(in[name], put), append(out[name], taken), n
			}
		}
	}
	for _, level := range queueLevels {
		for _, k := range queueKinds {
			name := k.name + string(level)
			all = append(all, QueueCost{Queue: k.name, Level: level, Request: request, Lines: lines, In: ladder.CostOf(in[name]), Out: ladder.CostOf(out[name]), Lost: k.lost(level)})
		}
	}
	return all, nil
}

// queueWork is how many lines are put into a queue, in requests of some.
type queueWork struct {
	lines, request int
	limit          time.Duration // of putting them there; 0 is none
}

// queueLine is each line, but for its number.
const (
	queueLine = `{"n":0000000000,"id":"BAW117","alt":35000,"gs":480,"lat":51.4706,"lon":-0.461941,"heading":271,"type":"position"}` + "\n"
	numberAt  = len(`{"n":`)
	digits    = 10
)

// number gives the lines of a request their numbers, from n on.
func number(request []byte, n int) {
	for ; len(request) > 0; request = request[len(queueLine):] {
		rest := n
		for i := numberAt + digits - 1; i >= numberAt; i-- {
			request[i] = '0' + byte(rest%10)
			rest /= 10
		}
		n++
	}
}

// through puts the lines into a queue in a folder, takes them out and removes it, and returns how many they were.
func (w *queueWork) through(ctx context.Context, k *queueKind, dir string, level sink.Level) (n int, in, out ladder.Timing, err error) {
	q, err := k.open(ctx, dir, level)
	if err != nil {
		return 0, in, out, err
	}
	defer func() { err = errors.Join(err, q.close(), os.RemoveAll(dir)) }()
	request := bytes.Repeat([]byte(queueLine), w.request)
	before, start := q.usage(), time.Now()
	for n == 0 || n+w.request <= w.lines && (w.limit == 0 || time.Since(start) < w.limit) {
		number(request, n)
		if err := q.put(ctx, request); err != nil {
			return n, in, out, err
		}
		n += w.request
	}
	in = ladder.NewTiming(n, time.Since(start), before, q.usage())
	before, start = q.usage(), time.Now()
	taken, err := drain(ctx, q)
	if err == nil && taken != n {
		err = fmt.Errorf("%d lines were put there, and %d taken out", n, taken)
	}
	if err != nil {
		return n, in, out, err
	}
	return n, in, ladder.NewTiming(taken, time.Since(start), before, q.usage()), nil
}

// drain takes all lines out, and returns how many. They have to come in the order of their numbers.
func drain(ctx context.Context, q queue) (n int, err error) {
	want := []byte(queueLine)
	for {
		before := n
		err := q.take(ctx, takeLines, func(line []byte) error {
			if number(want, n); !bytes.Equal(line, want[:len(want)-1]) {
				return fmt.Errorf("line %d of the queue is %q", n, line)
			}
			n++
			return nil
		})
		if err != nil || n == before {
			return n, err
		}
	}
}

// A queueKind is a way to keep a queue.
type queueKind struct {
	name string
	open func(ctx context.Context, dir string, level sink.Level) (queue, error)
	// lost is what a power cut takes of what was put there.
	lost func(level sink.Level) string
}

var queueKinds = []*queueKind{
	{"SQLite " + sqlite.Version, openSQLiteQueue, (&ladder.SQLite{}).Lost},
	{"weir's spool", openSpoolQueue, func(level sink.Level) string {
		return map[sink.Level]string{sink.Full: "nothing", sink.Normal: "a second", sink.Off: "what the system has not written yet"}[level]
	}},
}

// A queue of lines survives its process, and, as its level says, a power cut.
type queue interface {
	// put adds a request of whole lines. When it returns they are as safe as the level says.
	put(ctx context.Context, request []byte) error
	// take shows some lines, n at most, to see, and removes them.
	take(ctx context.Context, n int, see func(line []byte) error) error
	usage() ladder.Usage
	close() error
}
