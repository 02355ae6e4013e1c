package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
)

// firestarter is a folder with the program and the two tables that Firestarter makes of
// testdata/firestarter/feed.jsonl, whose times are in a far future: nothing expires.
type firestarter struct {
	*testweir.Folder
	feed, repo string
}

// TestFirestarter_TablesAreEqual runs contrib/firestarter.yaml as it stands: from a file and from a
// connection, by runs that are killed, and from stdin. Each makes the tables that Firestarter makes
// of the same messages; "diverted", which it does not take from them, and the stamps aside.
func TestFirestarter_TablesAreEqual(t *testing.T) {
	testcheck.Only(t)
	from := map[string]func(*firestarter){"a file": (*firestarter).fromFile, "stdin": (*firestarter).fromStdin, "a connection": (*firestarter).fromConnection}
	for name, run := range from {
		t.Run(name, func(t *testing.T) {
			intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
				t.Parallel()
				f := &firestarter{Folder: testweir.New(t, to(t))}
				f.Env = []string{"FH_USERNAME=somebody", "FH_APIKEY=s3cret"}
				var err error
				f.repo, err = filepath.Abs("../..")
				f.Check(err)
				f.feed = f.repo + "/testdata/firestarter/feed.jsonl"
				run(f)
				for _, table := range []string{"flights", "positions"} {
					want := strings.Split(strings.TrimSpace(read(t, f.repo+"/testdata/firestarter/"+table+".jsonl")), "\n")
					if got := f.rows(table); !slices.Equal(got, want) {
						t.Errorf("%s has\n%s\nwant\n%s", table, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
				f.Has("0", "SELECT count(*) FROM weir_rejects")
			})
		})
	}
}

// sync is the command line of a run.
func (f *firestarter) sync(source string, more ...string) []string {
	return append([]string{"sync", source, "--config", f.repo + "/contrib/firestarter.yaml", "--to", f.To, "-q"}, more...)
}

func (f *firestarter) fromStdin() {
	c := f.Command(f.sync("-")...)
	feed, err := os.Open(f.feed)
	f.Check(err)
	defer feed.Close()
	c.Stdin = feed
	c.Start().Exit(0)
}

func (f *firestarter) fromFile() {
	for _, lines := range []string{"60", "160"} {
		c := f.Start(f.sync(f.feed, "--max-rate", "40/s", "--batch-rows", "7")...)
		f.Until(lines+" lines", func() bool { return f.past(lines) })
		c.Kill()
	}
	if f.past("345") {
		f.Error("did not exercise: the last run has nothing to do")
	}
	f.Start(f.sync(f.feed)...).Exit(0)
}

func (f *firestarter) past(line string) bool {
	return f.Ask("SELECT count(*) FROM weir_checkpoints WHERE line >= "+line) == "1"
}

// fromConnection reads from a replay whose connection breaks, and which sends the messages of the
// last pitr again.
func (f *firestarter) fromConnection() {
	replay := f.Start("replay", f.feed, "--feed", "firehose", "--rate", "100/s", "--drop-after", "900ms", "--to", "tls-listen://127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	run := f.sync("tls://"+replay.Serves(), "--compression", "gzip", "--tls-ca", "cert.pem", "--batch-period", "20ms", "-v")
	logs := ""
	for _, rows := range []int{10, 40} {
		c := f.Start(run...)
		f.Until(fmt.Sprint(rows, " rows"), func() bool {
			n, err := strconv.Atoi(f.Ask("SELECT count(*) FROM positions"))
			return err == nil && n >= rows
		})
		c.Kill()
		logs += c.Log()
	}
	c := f.Start(run...)
	f.Becomes("1", `SELECT count(*) FROM weir_checkpoints WHERE mark LIKE '%"resume":"4102445481"%'`)
	c.Interrupt()
	if !strings.Contains(logs+c.Log(), "reconnecting in") {
		f.Error("did not exercise: the connection never broke")
	}
}

// rows are those of a table in order, each as JSON without what is NULL.
func (f *firestarter) rows(table string) (rows []string) {
	db := f.Open(f.To, "ro")
	defer db.Close()
	names, all, err := testweir.Cells(db, "SELECT * FROM "+table)
	f.Check(err)
	for _, cells := range all {
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
			f.Errorf("%s: a row without stamps: %v", table, row)
		}
		for _, c := range []string{"added", "changed", "diverted"} {
			delete(row, c)
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		f.Check(e.Encode(row))
		rows = append(rows, strings.TrimSpace(text.String()))
	}
	slices.Sort(rows)
	return rows
}
