package torture

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

// TestCrash kills weir with SIGKILL at random moments, again and again until the whole feed is applied: at every
// durability level, in both databases, from each kind of source. After each kill the table must be the fold of the
// lines before the checkpoint.
func TestCrash(t *testing.T) {
	n := times(t)
	var kills, moved atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, to := range []string{"sqlite off", "sqlite normal", "sqlite full", "sqlite extra", "postgres normal", "postgres full"} {
			for _, source := range []string{"file", "stdin", "tcp", "spool"} {
				t.Run(to+" "+source, func(t *testing.T) {
					t.Parallel()
					sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
						k, m := crashes(t, rnd, to, source, 10*n)
						kills.Add(int64(k))
						moved.Add(int64(m))
					})
				})
			}
		}
	})
	t.Logf("%d kills, %d of them after something more had been committed", kills.Load(), moved.Load())
}

// crashes kills runs until wanted runs were killed, a fifth of them after they had committed something.
func crashes(t *testing.T, rnd *rand.Rand, to, source string, wanted int) (kills, moved int) {
	life := 150 * time.Millisecond // about the duration of a run
	for rounds := 0; kills < wanted || moved < wanted/5; rounds++ {
		if rounds > 20*wanted {
			t.Fatalf("did not exercise: %d kills in %d rounds, %d of them after something more had been committed", kills, rounds, moved)
		}
		var kind, level, dest string
		fmt.Sscan(to, &kind, &level)
		if kind == "postgres" {
			dest = testpg.New(t)
		}
		way := source
		if source == "spool" {
			way = "tcp"
		}
		tr := newTrial(t, rnd, way, dest, level, 3000)
		if dest == "" && rounds%3 == 2 {
			tr.make("DELETE")
		}
		if source == "spool" {
			tr.args = append(tr.args, "--spool", "spool", "--spool-max", "1MiB")
		}
		for at := 0; ; {
			c := tr.start()
			start := time.Now()
			killed := make(chan struct{})
			kill := time.AfterFunc(time.Duration(rnd.Int64N(int64(life))), func() {
				close(killed)
				c.Kill()
			})
			all := tr.done(c, killed)
			kill.Stop()
			now := tr.verify()
			if now < at {
				t.Fatalf("the checkpoint moved back from line %d to %d", at, now)
			}
			if all {
				if now != len(tr.feed) {
					t.Fatalf("the run ended well after line %d of %d", now, len(tr.feed))
				}
				if tr.removes && source != "tcp" && source != "spool" {
					tr.Has("0", "SELECT count(*) FROM t WHERE id LIKE '"+removable+"%'")
				}
				life = (life + time.Since(start)) / 2
				break
			}
			kills++
			if life = life * 5 / 4; now > at {
				moved++
			}
			at = now
		}
	}
	return kills, moved
}

// TestCrash_Server kills the Postgres server under a run, which resumes when the server is back. At level normal the
// server may have lost its last commits: then the run reads the file again from the database's checkpoint.
func TestCrash_Server(t *testing.T) {
	n := times(t)
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		server := testpg.Start(t)
		kills, back := 0, 0
		for kills < 8*n {
			for _, level := range []string{"full", "normal"} {
				k, b := serverCrashes(t, rnd, server, level)
				kills += k
				back += b
			}
		}
		t.Logf("%d kills of the server, which had lost something after %d of them", kills, back)
	})
}

func serverCrashes(t *testing.T, rnd *rand.Rand, server *testpg.Server, level string) (kills, back int) {
	tr := newTrial(t, rnd, "file", server.Database(t), level, 30000)
	c := tr.start()
	for at := 0; kills < 6 && at < len(tr.feed); kills++ {
		time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
		server.Kill()
		server.Restart(t)
		at = tr.verify()
	}
	tr.completes(c)
	restored, _, _ := strings.Cut(sink.BehindError{}.Error(), ":")
	back = strings.Count(c.Log(), restored)
	if level == "full" && back > 0 {
		t.Errorf("at level full the database lost commits\n%s", c.Log())
	}
	return kills, back
}

// TestConnection_Breaks breaks the connection to Postgres under a run, again and again for a limited time: on a
// loaded machine the run might never finish otherwise.
func TestConnection_Breaks(t *testing.T) {
	n := times(t)
	// If the server does not notice, a connection takes a tenth of a second, because the old session is terminated
	// first.
	for half, often := range map[bool]time.Duration{false: 100 * time.Millisecond, true: 600 * time.Millisecond} {
		t.Run(fmt.Sprintf("half=%v", half), func(t *testing.T) {
			t.Parallel()
			sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
				proxy := testpg.NewProxy(t, testpg.New(t))
				proxy.Half(half)
				tr := newTrial(t, rnd, "file", proxy.URL(), "full", 30000)
				c := tr.start()
				breaks := 0
				for enough := time.Now().Add(20 * time.Second); !c.Ended() && time.Now().Before(enough); breaks++ {
					time.Sleep(time.Duration(rnd.Int64N(int64(often))))
					proxy.Break()
				}
				tr.completes(c)
				if breaks < 5 {
					t.Errorf("did not exercise: %d breaks", breaks)
				}
				t.Logf("%d breaks", breaks)
			})
		})
	}
}

// fileCalls are the system calls that change files.
const fileCalls = "pwrite64,fsync,fdatasync,ftruncate,unlink,unlinkat,rename,renameat,renameat2"

// injected runs weir on a small feed from a file, or from a connection with a spool, and injects something into the
// call with a number. Then the table must be correct, and after another run complete. It returns the exit code of the
// first run.
func injected(t *testing.T, rnd *rand.Rand, source, what string, at int) (code int) {
	t.Helper()
	tr := newTrial(t, rnd, map[string]string{"file": "file", "spool": "tcp"}[source], "", "full", 1000)
	if source == "spool" {
		tr.args = append(tr.args, "--spool", "spool", "--spool-max", "1MiB")
	}
	tr.args = append(tr.args, "--retry-for", "0s") // a connection ends with its feed
	c := tr.Command(append(tr.args, "--batch-rows", "60")...).Under("strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace="+fileCalls, "-e", fmt.Sprintf("inject=%s:%s:when=%d", fileCalls, what, at)).Start()
	if code = c.Wait(); code == 1 && what == "signal=KILL" {
		t.Fatalf("call %d: the run ended by itself\n%s", at, c.Log())
	}
	tr.verify()
	tr.completes(tr.start())
	return code
}

// TestCrash_AtEveryCall kills a run while it writes, syncs, truncates, renames or removes a file, at each such call
// in turn: of the database and of the spool.
func TestCrash_AtEveryCall(t *testing.T) {
	n := times(t)
	testcheck.Tool(t, "strace")
	for _, source := range []string{"file", "spool"} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
				kills := 0
				for code := -1; code != 0 && code != 3; kills++ { // until the run has fewer calls
					code = injected(t, rnd, source, "signal=KILL", kills+1)
				}
				t.Logf("%d kills", kills-1)
				if kills < 10 {
					t.Error("did not exercise")
				}
			})
		})
	}
}

// TestFault_EveryCallFails makes each of the first calls fail in turn, like a broken or full disk: the run continues
// or ends with an error, and nothing is lost.
func TestFault_EveryCallFails(t *testing.T) {
	n := times(t)
	testcheck.Tool(t, "strace")
	for _, source := range []string{"file", "spool"} {
		for _, fault := range []string{"EIO", "ENOSPC"} {
			t.Run(source+" "+fault, func(t *testing.T) {
				t.Parallel()
				sinktest.Seeds(t, n, func(t *testing.T, rnd *rand.Rand) {
					ended := map[int]int{}
					for at := 1; at <= 15; at++ {
						ended[injected(t, rnd, source, "error="+fault, at)]++
					}
					t.Logf("exit codes: %v", ended)
					if ended[1] == 0 {
						t.Error("did not exercise: no run ended with an error")
					}
				})
			})
		}
	}
}
