package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// If the disk fills in the middle of a large flush into Postgres, the table is unchanged. The run says so, and repeats
// the flush when there is room again. The disk holds only the table, and fills as rows are merged into it, or the whole
// database, and fills as rows are sent.
func TestLargeFlush_DiskIsFull(t *testing.T) {
	testcheck.Only(t)
	if os.Geteuid() != 0 {
		testcheck.Missing(t, "root, who mounts a small file system")
	}
	for what, options := range map[string]string{"the table": "", "the database": "TABLESPACE small"} {
		t.Run(what, func(t *testing.T) {
			server := testpg.Start(t)
			disk := server.Folder(t)
			if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", disk).CombinedOutput(); err != nil {
				testcheck.Missing(t, "a file system in memory: "+string(out))
			}
			t.Cleanup(func() { _ = exec.Command("umount", "-l", disk).Run() })
			server.Own(t, disk)
			l := testweir.New(t, server.Database(t))
			l.Exec("CREATE TABLESPACE small LOCATION '" + disk + "'")
			l.To = server.Database(t, options)
			l.Exec("CREATE TABLE t (id bigint PRIMARY KEY, a bigint, b text) TABLESPACE small")
			sync := []string{"sync", "feed.jsonl", "--table", "t", "--to", l.To, "--buffer", "1GiB", "--job", "j", "--restart=reread", "--metrics-addr", "127.0.0.1:0"}
			l.Write("feed.jsonl", `{"id":1,"a":2,"b":"x"}`+"\n")
			l.Start(sync...).Exit(0)
			const query = "SELECT count(*), sum(a), (SELECT seq FROM weir_checkpoints) FROM t"
			l.Has("1|2|1", query)
			sum := largeFeed(l, large)
			run := l.Start(sync...)
			inTheMiddle(l, run)
			run.Says(`waiting for the database \(disk full\): .*\(SQLSTATE 53100\) \(free some space\)`)
			l.Has("1|2|1", query)
			l.Check(exec.Command("mount", "-o", "remount,size=1g", disk).Run())
			run.Exit(0)
			l.Has(fmt.Sprint(large, "|", sum, "|2"), query)
		})
	}
}
