//go:build unix

package testpg

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// CPU returns the CPU time of all the server's processes, including those that have ended. It waits until no client
// is connected.
func (s *Server) CPU(t testing.TB) (used time.Duration) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); len(s.processes("127.0.0.1(")) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a client is still connected to the server")
		}
	}
	for _, pid := range s.processes("") {
		used += ticks(pid, 14, 15) // utime, stime
	}
	return used + ticks(s.PID(), 16, 17) // of the children that it waited for
}

// ticks adds fields of a process's /proc/PID/stat, in hundredths of a second.
func ticks(pid int, fields ...int) (sum time.Duration) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	after := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // starts with the third field: names may contain spaces
	for _, n := range fields {
		if n-3 < len(after) {
			v, _ := strconv.Atoi(string(after[n-3]))
			sum += time.Duration(v) * 10 * time.Millisecond
		}
	}
	return sum
}
