package torture

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/weirsync/weir/internal/test/foldtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

func TestMain(m *testing.M) { testweir.Main(testpg.Tests{M: m}, nil) }

// times returns by how much the tests should be longer than in make check.
func times(t *testing.T) int {
	t.Helper()
	testcheck.Only(t)
	return tortured()
}

func tortured() int {
	n, err := strconv.Atoi(os.Getenv("TORTURE"))
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// removable is the beginning of the keys of rows that a trial may remove by SQL of its own. Each is named by one line.
const removable = "old"

// newFeed draws a feed: each 97th line is bad, the first one has every column, and the last one is a message. Each 50th
// line has a removable row. The number of a line is its n and its pitr.
func newFeed(rnd *rand.Rand, lines int) []string {
	feed := make([]string, lines)
	for i := range feed {
		n := i + 1
		if n%97 == 0 {
			feed[i] = fmt.Sprintf("bad %d", n)
			continue
		}
		if n%50 == 0 {
			feed[i] = fmt.Sprintf(`{"id":"%s%d","n":%d,"pitr":%[2]d,"a":"a"}`, removable, n, n)
			continue
		}
		feed[i] = fmt.Sprintf(`{"id":"k%d","n":%d,"pitr":%d`, rnd.IntN(lines/20), n, n)
		if rnd.IntN(20) == 0 {
			feed[i] += `,"op":"delete"}`
			continue
		}
		for _, c := range []string{"a", "b", "c"} {
			switch rnd.IntN(6) {
			case 0:
				feed[i] += fmt.Sprintf(`,%q:null`, c)
			case 1, 2:
				feed[i] += fmt.Sprintf(`,%q:"%s %d %s"`, c, c, n, strings.Repeat("x", rnd.IntN(100)))
			}
		}
		feed[i] += "}"
	}
	feed[0] = `{"id":"k0","n":1,"pitr":1,"a":"a","b":"b","c":"c"}`
	feed[lines-1] = fmt.Sprintf(`{"id":"k0","n":%d,"pitr":%d}`, lines, lines)
	return feed
}

// fold folds lines, and returns the bad lines among them.
func fold(feed []string) (t *foldtest.Table, bad []string) {
	t = foldtest.NewTable(foldtest.Rules{Key: []string{"id"}, DeleteField: "op", DeleteValue: "delete", MaxColumns: 9}, foldtest.Limits{})
	for _, line := range feed {
		if t.Apply([]byte(line)) != nil {
			bad = append(bad, line)
		}
	}
	return t, bad
}

// A trial is one feed that is synced into one table in one way.
type trial struct {
	*testweir.Folder
	rnd    *rand.Rand
	feed   []string
	source string // file, stdin or tcp
	args   []string
	input  string // of stdin
	// removes: runs remove the removable rows that are there, from time to time and at their ends.
	removes bool
}

func newTrial(t *testing.T, rnd *rand.Rand, source, to, level string, lines int) *trial {
	t.Helper()
	tr := &trial{Folder: testweir.New(t, to), rnd: rnd, source: source, feed: newFeed(rnd, lines)}
	tr.Write("feed.jsonl", strings.Join(tr.feed, "\n")+"\n")
	if to == "" {
		tr.To = tr.Path("t.db")
	}
	tr.args = []string{"--table", "t", "--to", tr.To, "--delete-when", "op=delete", "--synchronous", level, "--batch-period", "20ms", "--retry-for", "60s", "-q"}
	if rnd.IntN(2) == 0 { // in feed order they change nothing
		tr.args = append(tr.args, "--version-field", "n")
	}
	if tr.removes = rnd.IntN(3) == 0; tr.removes {
		tr.Write("every.yaml", "every: {20ms: DELETE FROM t WHERE id LIKE '"+removable+"%'}\n")
		tr.args = append(tr.args, "--config", "every.yaml")
	}
	switch source {
	case "file":
		tr.args = append([]string{"sync", "feed.jsonl"}, tr.args...)
	case "stdin":
		tr.args = append([]string{"sync", "-", "--job", "torture"}, tr.args...)
		tr.input = tr.Path("feed.jsonl")
	case "tcp":
		tr.dial("20000/s")
	}
	return tr
}

// dial makes the trial's runs read from a connection.
func (tr *trial) dial(rate string) {
	tr.Helper()
	tr.source = "tcp"
	replay := tr.Start("replay", "feed.jsonl", "--resume-field", "pitr", "--init", "^from (?P<resume>[0-9]*)$", "--rate", rate, "--to", "tcp-listen://127.0.0.1:0")
	tr.args = append([]string{"sync", "tcp://" + replay.Serves(), "--init", "from {{.resume}}", "--resume-field", "pitr"}, tr.args...)
}

// start starts a run.
func (tr *trial) start() *testweir.Run {
	tr.Helper()
	run := tr.Command(append(tr.args, "--batch-rows", strconv.Itoa(1+tr.rnd.IntN(60)))...)
	if tr.input != "" {
		f, err := os.Open(tr.input)
		tr.Check(err)
		defer f.Close()
		run.Stdin = f
	}
	return run.Start()
}

func (tr *trial) isPostgres() bool { return strings.HasPrefix(tr.To, "postgres://") }

// make creates an empty database with a journal mode.
func (tr *trial) make(journal string) {
	tr.Exec("PRAGMA journal_mode = "+journal, "CREATE TABLE theirs (a)")
}

// A snapshot is the content of a database at one moment.
type snapshot struct {
	line    int // the checkpoint: the table must be the fold of the lines before it
	rows    map[string]map[string]cell
	rejects []string
}

var errNone = errors.New("nothing was committed")

// look reads the database.
func (tr *trial) look() (*snapshot, error) {
	db := tr.Open(tr.To, "rwc")
	defer db.Close()
	tables, o := "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname IN ('t', 'weir_checkpoints')", &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}
	if !tr.isPostgres() {
		tables, o.Isolation = "SELECT count(*) FROM sqlite_schema WHERE name IN ('t', 'weir_checkpoints')", sql.LevelDefault
		if _, err := os.Stat(tr.To); err != nil {
			return nil, errNone
		}
		if ok, err := testweir.Rows(db, "PRAGMA integrity_check"); err != nil || ok[0] != "ok" {
			return nil, fmt.Errorf("integrity_check: %s, %w", ok, err)
		}
	}
	tx, err := db.BeginTx(tr.Context(), o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	if n, err := testweir.Rows(tx, tables); err != nil || n[0] != "2" {
		return nil, cmp.Or(err, errNone)
	}
	s := &snapshot{rows: map[string]map[string]cell{}}
	var mark struct{ Feed struct{ Resume string } }
	var text []byte
	if err := tx.QueryRow("SELECT line, mark FROM weir_checkpoints").Scan(&s.line, &text); err != nil {
		return nil, err
	}
	if tr.source == "tcp" {
		err = json.Unmarshal(text, &mark)
		s.line, _ = strconv.Atoi(mark.Feed.Resume)
	}
	t, rowsErr := rowsOf(tx, tr.isPostgres(), "t")
	for _, row := range t.rows {
		s.rows[foldtest.Key(row["id"].text)] = row
	}
	var rejectsErr error
	s.rejects, rejectsErr = testweir.Rows(tx, "SELECT raw FROM weir_rejects")
	// Lines of a connection have no order across several runs.
	slices.SortFunc(s.rejects, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return s, errors.Join(err, rowsErr, rejectsErr)
}

// verify checks that the table is the fold of exactly the lines before the checkpoint, and that each bad line among
// them was kept once. It returns the number of these lines.
func (tr *trial) verify() int {
	tr.Helper()
	s, err := tr.look()
	if err == errNone {
		return 0
	}
	tr.Check(err)
	model, bad := fold(tr.feed[:s.line])
	if next := s.line; tr.source == "tcp" && next < len(tr.feed) && strings.HasPrefix(tr.feed[next], "bad") && slices.Contains(s.rejects, tr.feed[next]) {
		bad = append(bad, tr.feed[next]) // the line has no resume value
	}
	want := model.Rows()
	for n := range s.line + 1 {
		if key := foldtest.Key(fmt.Sprint(removable, n)); tr.removes && s.rows[key] == nil {
			delete(want, key)
		}
	}
	same := func(_ string, want foldtest.Value, have cell) bool { return sameMapped(want, have) }
	if faults := differences("t", s.rows, want, same); len(faults) > 0 {
		tr.Fatalf("after line %d:\n%.2000s", s.line, strings.Join(faults, "\n"))
	}
	if !slices.Equal(s.rejects, bad) {
		tr.Fatalf("after line %d the lines %q are kept as rejects, want %q", s.line, s.rejects, bad)
	}
	return s.line
}

// done waits until a run has ended, or until everything is committed if it never ends, and reports whether it read
// everything.
func (tr *trial) done(run *testweir.Run, killed <-chan struct{}) (all bool) {
	tr.Helper()
	finished := func() bool { // everything is committed, by a run that never ends
		if tr.source != "tcp" {
			return false
		}
		select {
		case <-killed:
			return false
		default:
		}
		s, err := tr.look()
		return err == nil && s.line == len(tr.feed)
	}
	for end := time.Now().Add(5 * time.Minute); !run.Ended() && !finished(); time.Sleep(30 * time.Millisecond) {
		if time.Now().After(end) {
			run.Kill()
			tr.Fatalf("the run did not end\n%s", run.Log())
		}
	}
	if !run.Ended() {
		run.Signal(os.Interrupt)
		// Else it was killed just now; a run that finds nothing to do may not handle signals yet.
		return run.Wait() >= 0 || run.ProcessState.String() == "signal: interrupt"
	}
	switch code := run.Wait(); code {
	case 0, 3:
		return true
	case -1:
		return false // by a signal
	default:
		tr.Fatalf("the run ended by itself: exit %d\n%s", code, run.Log())
		return false
	}
}

// completes expects a run to succeed with the whole feed in the table.
func (tr *trial) completes(run *testweir.Run) {
	tr.Helper()
	if all, at := tr.done(run, nil), tr.verify(); !all || at != len(tr.feed) {
		tr.Fatalf("the run ended after line %d of %d\n%s", at, len(tr.feed), run.Log())
	}
}
