package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// firestarter is a folder with the program and the two tables that Firestarter makes of
// testdata/firestarter/feed.jsonl, whose times are in a far future: nothing expires.
type firestarter struct {
	live
	repo string
}

// TestFirestarter_TablesAreEqual runs contrib/firestarter.yaml as it stands: from a file and from a
// connection, by runs that are killed, and from stdin. Each makes the tables that Firestarter makes
// of the same messages; "diverted", which it does not take from them, and the stamps aside.
func TestFirestarter_TablesAreEqual(t *testing.T) {
	testcheck.Only(t)
	from := map[string]func(*firestarter){"a file": (*firestarter).fromFile, "stdin": (*firestarter).fromStdin, "a connection": (*firestarter).fromConnection}
	for _, kind := range []string{"sqlite", "postgres"} {
		for name, run := range from {
			t.Run(kind+" from "+name, func(t *testing.T) {
				t.Parallel()
				f := &firestarter{live: *newLive(t, "air.db")}
				var err error
				f.repo, err = filepath.Abs("../..")
				f.check(err)
				f.feed = f.repo + "/testdata/firestarter/feed.jsonl"
				if kind == "postgres" {
					f.to = testpg.New(t)
				}
				run(f)
				for _, table := range []string{"flights", "positions"} {
					want := strings.Split(strings.TrimSpace(read(t, f.repo+"/testdata/firestarter/"+table+".jsonl")), "\n")
					if got := f.rows(table); !slices.Equal(got, want) {
						t.Errorf("%s has\n%s\nwant\n%s", table, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
				if n := f.ask("SELECT count(*) FROM weir_rejects"); n != "0" {
					t.Errorf("%s lines were rejected", n)
				}
			})
		}
	}
}

// sync is the command line of a run.
func (f *firestarter) sync(source string, more ...string) []string {
	return append([]string{"sync", source, "--config", f.repo + "/contrib/firestarter.yaml", "--to", f.to, "-q"}, more...)
}

func (f *firestarter) fromStdin() {
	c := exec.Command(filepath.Join(f.dir, "weir"), f.sync("-")...)
	feed, err := os.Open(f.feed)
	f.check(err)
	defer feed.Close()
	c.Dir, c.Stdin = f.dir, feed
	if out, err := c.CombinedOutput(); err != nil {
		f.t.Fatalf("%v\n%s", err, out)
	}
}

func (f *firestarter) fromFile() {
	for _, lines := range []string{"60", "160"} {
		c := f.start("sync", f.sync(f.feed, "--max-rate", "40/s", "--batch-rows", "7")...)
		f.until(lines+" lines", func() bool { return f.past(lines) })
		f.kill(c)
	}
	if f.past("345") {
		f.t.Error("did not exercise: the last run has nothing to do")
	}
	if err := f.start("sync", f.sync(f.feed)...).Wait(); err != nil {
		f.t.Errorf("%v\n%s", err, f.log("sync"))
	}
}

func (f *firestarter) past(line string) bool {
	return f.ask("SELECT count(*) FROM weir_checkpoints WHERE line >= "+line) == "1"
}

// fromConnection reads from a replay whose connection breaks, and which sends the messages of the
// last pitr again.
func (f *firestarter) fromConnection() {
	f.start("replay", "replay", f.feed, "--feed", "firehose", "--rate", "100/s", "--drop-after", "900ms", "--to", "tls-listen://127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	serving := regexp.MustCompile(`serving at (\S+)`)
	f.until("the replay", func() bool { return serving.MatchString(f.log("replay")) })
	run := f.sync("tls://"+serving.FindStringSubmatch(f.log("replay"))[1], "--compression", "gzip", "--tls-ca", "cert.pem", "--batch-period", "20ms", "-v")
	for _, rows := range []int{10, 40} {
		c := f.start("sync", run...)
		f.until(fmt.Sprint(rows, " rows"), func() bool {
			n, err := strconv.Atoi(f.ask("SELECT count(*) FROM positions"))
			return err == nil && n >= rows
		})
		f.kill(c)
	}
	c := f.start("sync", run...)
	f.until("all is read", func() bool {
		return f.ask(`SELECT count(*) FROM weir_checkpoints WHERE mark LIKE '%"resume":"4102445481"%'`) == "1"
	})
	f.check(c.Process.Signal(os.Interrupt))
	if _ = c.Wait(); c.ProcessState.ExitCode() != 130 {
		f.t.Errorf("the run ended with %d\n%s", c.ProcessState.ExitCode(), f.log("sync"))
	}
	if !strings.Contains(f.log("sync"), "reconnecting in") {
		f.t.Error("did not exercise: the connection never broke")
	}
}

// rows are those of a table in order, each as JSON without what is NULL.
func (f *firestarter) rows(table string) (rows []string) {
	db := f.database()
	defer db.Close()
	found, err := db.Query("SELECT * FROM " + table)
	f.check(err)
	defer found.Close()
	names, err := found.Columns()
	f.check(err)
	for found.Next() {
		cells, into := make([]any, len(names)), make([]any, len(names))
		for i := range cells {
			into[i] = &cells[i]
		}
		f.check(found.Scan(into...))
		row := map[string]any{}
		for i, c := range cells {
			switch x := c.(type) {
			case nil:
				continue
			case time.Time:
				c = x.UTC().Format(time.DateTime)
			case bool:
				c = 0
				if x {
					c = 1
				}
			}
			row[names[i]] = c
		}
		if row["added"] == nil || table == "flights" && row["changed"] == nil {
			f.t.Errorf("%s: a row without stamps: %v", table, row)
		}
		for _, c := range []string{"added", "changed", "diverted"} {
			delete(row, c)
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		f.check(e.Encode(row))
		rows = append(rows, strings.TrimSpace(text.String()))
	}
	f.check(found.Err())
	slices.Sort(rows)
	return rows
}
