//go:build unix

// Command table times bin/weir on the benchmarks' feeds and prints ratios: against the C program of bench/reference
// if it is built, and for different numbers of cores, messages and ids. It also compares memory with what weir
// promises.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/weirsync/weir/internal/test/bench"
)

var (
	rounds   = flag.Int("rounds", 5, "how often each command is run; medians count")
	only     = flag.String("only", ".", "the sections whose names match")
	postgres = flag.String("postgres", "", "a Postgres database to write to, in a schema weir_bench")
	python   = flag.String("python", "python3", "a Python that has the package duckdb, for backfill")
	largest  = flag.Int("largest", 10_000_000, "messages of the longest feed; it takes 340 bytes of disk each")
)

func main() {
	log.SetFlags(0)
	flag.Parse()
	dir, err := os.MkdirTemp("", "weir-bench-")
	check(err)
	defer func() { check(os.RemoveAll(dir)) }()
	b := &table{dir: dir}
	for _, s := range []struct {
		name string
		run  func()
	}{
		{"reference", b.reference}, {"backfill", b.backfill}, {"cores", b.cores}, {"small", b.small}, {"memory", b.memory},
		{"messages", b.messages}, {"ids", b.ids}, {"keys", b.keys}, {"stream", b.endless}, {"postgres", b.postgres},
	} {
		if regexp.MustCompile(*only).MatchString(s.name) {
			fmt.Printf("\n## %s\n\n", s.name)
			s.run()
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// table runs commands in a separate folder.
type table struct{ dir string }

// cost is the cost of a command; of several runs, the medians.
type cost struct {
	wall, cpu time.Duration
	rss       int64 // KiB
}

// A command is measured: a program, its arguments and environment.
type command struct {
	args []string
	env  []string
}

func (t *table) db() string { return filepath.Join(t.dir, "t.db") }

// weir returns a sync into a new SQLite file.
func (t *table) weir(feed string, args ...string) command {
	return command{args: append([]string{"bin/weir", "sync", feed, "--to", t.db(), "--table", "t", "-q"}, args...)}
}

// run runs the commands in turn, each after removing the output of the one before, and returns the medians of each.
func (t *table) run(rounds int, commands ...command) []cost {
	return t.turns(rounds, func() {
		files, _ := filepath.Glob(t.db() + "*")
		for _, f := range files {
			check(os.Remove(f))
		}
	}, commands...)
}

// turns runs the commands in turn, with clear before each, and returns the medians of each.
func (t *table) turns(rounds int, clear func(), commands ...command) []cost {
	all := make([][]cost, len(commands))
	for range rounds {
		for i, c := range commands {
			clear()
			all[i] = append(all[i], t.once(c))
		}
	}
	medians := make([]cost, len(commands))
	for i, runs := range all {
		medians[i] = cost{
			median(runs, func(c cost) time.Duration { return c.wall }),
			median(runs, func(c cost) time.Duration { return c.cpu }),
			median(runs, func(c cost) int64 { return c.rss }),
		}
	}
	return medians
}

// once runs a command without removing anything.
func (t *table) once(c command) cost {
	cmd := exec.Command(c.args[0], c.args[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), c.env...), os.Stderr
	start := time.Now()
	check(cmd.Run())
	wall := time.Since(start)
	s := cmd.ProcessState
	return cost{wall, s.UserTime() + s.SystemTime(), s.SysUsage().(*syscall.Rusage).Maxrss}
}

func median[T ~int64](runs []cost, of func(cost) T) T {
	var all []T
	for _, r := range runs {
		all = append(all, of(r))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// feed writes a feed; it is hot if there are fewer ids than messages.
func (t *table) feed(messages, ids int) string {
	return t.write(fmt.Sprintf("%d-%d", messages, ids), func(w io.Writer) error {
		if ids < messages {
			return bench.Hot(w, messages, ids, 1)
		}
		return bench.Distinct(w, messages, 1)
	})
}

// shapes writes a hot feed of six types of messages.
func (t *table) shapes() string {
	return t.write("shapes", func(w io.Writer) error { return bench.Shapes(w, million, 50_000, 1) })
}

// write writes a feed to the file name, unless it did so before.
func (t *table) write(name string, feed func(io.Writer) error) string {
	path := filepath.Join(t.dir, name+".jsonl")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	f, err := os.Create(path)
	check(err)
	w := bufio.NewWriterSize(f, 1<<20)
	check(feed(w))
	check(w.Flush())
	check(f.Close())
	return path
}

func (t *table) row(cells ...any) {
	var s []string
	for _, c := range cells {
		switch c := c.(type) {
		case float64:
			s = append(s, fmt.Sprintf("%.2f", c))
		case time.Duration:
			s = append(s, fmt.Sprintf("%.0f ms", float64(c)/1e6))
		default:
			s = append(s, fmt.Sprint(c))
		}
	}
	fmt.Printf("| %s |\n", strings.Join(s, " | "))
}

func (t *table) head(names ...any) {
	t.row(names...)
	fmt.Println("|" + strings.Repeat("---|", len(names)))
}

const million = 1_000_000

func ratio[T ~int64](a, b T) float64 { return float64(a) / float64(b) }

// reference compares weir with the C program.
func (t *table) reference() {
	if _, err := os.Stat("bin/reference"); err != nil {
		fmt.Println("bin/reference is not built: make bench-reference")
		return
	}
	t.head("feed", "reference", "weir", "ratio", "ratio of CPU", "reference's memory", "weir's")
	for _, f := range [][2]string{{"hot", t.feed(million, 50_000)}, {"shapes", t.shapes()}, {"distinct", t.feed(million, million)}} {
		name, feed := f[0], f[1]
		weir := t.weir(feed, "--synchronous", "normal")
		c := t.run(*rounds, command{args: []string{"bin/reference", feed, t.db()}}, weir)
		t.row(name, c[0].wall, c[1].wall, ratio(c[1].wall, c[0].wall), ratio(c[1].cpu, c[0].cpu), mib(c[0].rss), mib(c[1].rss))
		// Both must have written the same rows.
		check(exec.Command("bin/reference", feed, t.db()+"2").Run())
		same, err := exec.Command("bin/weir", "sync", feed, "--to", t.db()+"2", "--table", "t", "--summary", "json", "-q").Output()
		check(err)
		if !strings.Contains(string(same), `"inserted":0,"updated":0,`) {
			log.Fatalf("the reference's table is not the feed's fold: %s", same)
		}
	}
}

func mib(kib int64) string { return fmt.Sprintf("%d MiB", kib>>10) }

// cores measures the benefit of more cores.
func (t *table) cores() {
	weir := t.weir(t.feed(million, 50_000), "--synchronous", "normal")
	one, two := weir, weir
	one.env, two.env = []string{"GOMAXPROCS=1"}, []string{"GOMAXPROCS=2"}
	c := t.run(*rounds, one, two)
	t.head("hot feed", "wall", "CPU", "ratio")
	t.row("1 core", c[0].wall, c[0].cpu, 1.0)
	t.row("2 cores", c[1].wall, c[1].cpu, ratio(c[1].wall, c[0].wall))
}

// small measures a small file from start to finish.
func (t *table) small() {
	c := t.run(4**rounds, t.weir(t.feed(1000, 50)))
	t.head("1,000 messages", "wall", "CPU")
	t.row("", c[0].wall, c[0].cpu)
}

// memory compares the peak with the promise, for feeds of 1, 10 and 100 buffers.
func (t *table) memory() {
	const buffer = 16 // MiB
	promise := int64(buffer*3/2+64) << 10
	t.head("feed", "length in buffers", "peak", "of the promise")
	for _, length := range []int{1, 10, 100} {
		messages := length * buffer << 20 / 340
		for name, ids := range map[string]int{"hot": max(messages/20, 1), "distinct": messages} {
			c := t.run(1, t.weir(t.feed(messages, ids), "--buffer", fmt.Sprintf("%dMiB", buffer)))
			t.row(name, length, mib(c[0].rss), ratio(c[0].rss, promise))
		}
	}
}

func (t *table) perMessage(messages, ids int, first time.Duration) time.Duration {
	c := t.run(max(1, min(*rounds, 3*million/messages)), t.weir(t.feed(messages, ids), "--synchronous", "normal"))
	per := c[0].cpu / time.Duration(messages)
	if first == 0 {
		first = per
	}
	t.row(messages, ids, fmt.Sprintf("%.2f µs", float64(c[0].wall.Nanoseconds())/float64(messages)/1e3), fmt.Sprintf("%.2f µs", float64(per)/1e3), ratio(per, first), mib(c[0].rss))
	check(os.Remove(t.feed(messages, ids)))
	return first
}

// messages measures the cost per message for different feed lengths.
func (t *table) messages() {
	t.head("messages", "ids", "wall a message", "CPU a message", "ratio", "peak")
	first := time.Duration(0)
	for n := 10_000; n <= *largest; n *= 10 {
		first = t.perMessage(n, min(n/20, 50_000), first)
	}
}

// ids measures the cost per message for different numbers of rows.
func (t *table) ids() {
	t.head("messages", "ids", "wall a message", "CPU a message", "ratio", "peak")
	first := time.Duration(0)
	for n := 100; n <= million; n *= 10 {
		first = t.perMessage(million, n, first)
	}
}

// postgres measures a sync into Postgres.
func (t *table) postgres() {
	if *postgres == "" {
		fmt.Println("no -postgres URL")
		return
	}
	t.head("feed", "wall", "messages/s", "CPU of weir")
	for name, ids := range map[string]int{"hot": 50_000, "distinct": million} {
		c := t.turns(*rounds, t.emptySchema, t.intoPostgres(t.feed(million, ids)))[0]
		t.row(name, c.wall, int(million/c.wall.Seconds()), c.cpu)
	}
}

// intoPostgres returns a sync into a table of the schema weir_bench.
func (t *table) intoPostgres(feed string, args ...string) command {
	join := "?"
	if strings.Contains(*postgres, "?") {
		join = "&"
	}
	return command{args: append([]string{"bin/weir", "sync", feed, "--to", *postgres + join + "search_path=weir_bench", "--table", "t", "-q"}, args...)}
}

// emptySchema drops the schema weir_bench and creates it.
func (t *table) emptySchema() {
	sql := "SET client_min_messages = error; DROP SCHEMA IF EXISTS weir_bench CASCADE; CREATE SCHEMA weir_bench; CHECKPOINT"
	check(exec.Command("psql", "-qX", *postgres, "-c", sql).Run())
}
