//go:build unix

package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/weirsync/weir/internal/test/bench"
)

var stream = flag.Int("stream", 100*million, "messages of the stream, which takes no disk")

// keys measures the cost per message for different lengths of a feed of 1,000,000 ids, more rows than fit into a
// batch.
func (t *table) keys() {
	t.head("messages", "ids", "wall a message", "CPU a message", "ratio", "peak")
	first := time.Duration(0)
	for n := million; n <= *largest; n *= 10 {
		first = t.perMessage(n, million, first)
	}
}

// endless pipes one long feed of 50,000 ids into weir, and prints its memory meanwhile.
func (t *table) endless() {
	in, out := io.Pipe()
	go func() { out.CloseWithError(bench.Hot(out, *stream, 50_000, 1)) }()
	sync := t.weir("-", "--synchronous", "normal")
	cmd := exec.Command(sync.args[0], sync.args[1:]...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdinPipe()
	check(err)
	start := time.Now()
	check(cmd.Start())
	t.head("messages", "a second", "memory")
	least, most := int64(math.MaxInt64), int64(0)
	lines, next := 0, *stream/10
	w, scan := bufio.NewWriterSize(pipe, 1<<16), bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := scan.ReadSlice('\n')
		if err == io.EOF {
			break
		}
		check(err)
		_, err = w.Write(line)
		check(err)
		if lines++; lines == next {
			rss := residentKiB(cmd.Process.Pid)
			if lines > *stream/2 { // before that, caches fill
				least, most = min(least, rss), max(most, rss)
			}
			t.row(lines, int(float64(lines)/time.Since(start).Seconds()), mib(rss))
			next += *stream / 10
		}
	}
	check(w.Flush())
	check(pipe.Close())
	check(cmd.Wait())
	s := cmd.ProcessState
	fmt.Printf("\nmost of least in the second half: %.2f; %.2f µs of CPU for a message\n", ratio(most, least),
		float64((s.UserTime()+s.SystemTime()).Nanoseconds())/float64(*stream)/1e3)
}

var resident = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

func residentKiB(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(err)
	m := resident.FindSubmatch(status)
	if m == nil {
		check(fmt.Errorf("no resident memory in the status of %d", pid))
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	check(err)
	return n
}
