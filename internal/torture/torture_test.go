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

	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
	"github.com/weirsync/weir/internal/testweir"
)

func TestMain(m *testing.M) { testweir.Main(testpg.Tests{M: m}, nil) }

// times is how much longer than by make check the tests are asked to run.
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

// A message is a line of a feed; its number is its n and its pitr.
type message struct {
	line    string
	id      string // "" where it is no message
	deletes bool
	fields  map[string]string // the text, "NULL" for null
}

var columns = []string{"a", "b", "c"}

func newFeed(rnd *rand.Rand, lines int) []message {
	feed := make([]message, lines)
	for i := range feed {
		m, n := &feed[i], i+1
		if n%97 == 0 {
			m.line = fmt.Sprintf("bad %d", n)
			continue
		}
		m.id = fmt.Sprintf("k%d", rnd.IntN(lines/20))
		m.line = fmt.Sprintf(`{"id":%q,"n":%d,"pitr":%d`, m.id, n, n)
		if m.deletes = rnd.IntN(20) == 0; m.deletes {
			m.line += `,"op":"delete"}`
			continue
		}
		m.fields = map[string]string{}
		for _, c := range columns {
			switch rnd.IntN(6) {
			case 0:
				m.fields[c] = "NULL"
				m.line += fmt.Sprintf(`,%q:null`, c)
			case 1, 2:
				m.fields[c] = fmt.Sprintf("%s %d %s", c, n, strings.Repeat("x", rnd.IntN(100)))
				m.line += fmt.Sprintf(`,%q:%q`, c, m.fields[c])
			}
		}
		m.line += "}"
	}
	// Every column is there from the first line on, and the last line is a message.
	feed[0] = message{line: `{"id":"k0","n":1,"pitr":1,"a":"a","b":"b","c":"c"}`, id: "k0", fields: map[string]string{"a": "a", "b": "b", "c": "c"}}
	last := &feed[lines-1]
	*last = message{line: fmt.Sprintf(`{"id":"k0","n":%d,"pitr":%d}`, lines, lines), id: "k0"}
	return feed
}

// fold is what messages make: a row's n and columns by its id.
func fold(feed []message) map[string]string {
	rows := map[string]map[string]string{}
	for i, m := range feed {
		switch {
		case m.id == "":
		case m.deletes:
			delete(rows, m.id)
		default:
			if rows[m.id] == nil {
				rows[m.id] = map[string]string{"a": "NULL", "b": "NULL", "c": "NULL"}
			}
			rows[m.id]["n"] = strconv.Itoa(i + 1)
			for c, v := range m.fields {
				rows[m.id][c] = v
			}
		}
	}
	out := map[string]string{}
	for id, r := range rows {
		out[id] = r["n"] + "|" + r["a"] + "|" + r["b"] + "|" + r["c"]
	}
	return out
}

// A trial is one feed on its way into one table, by one way.
type trial struct {
	*testweir.Folder
	rnd    *rand.Rand
	feed   []message
	source string // file, stdin or tcp
	args   []string
	input  string // for stdin
}

func newTrial(t *testing.T, rnd *rand.Rand, source, to, level string, lines int) *trial {
	t.Helper()
	tr := &trial{Folder: testweir.New(t, to), rnd: rnd, source: source, feed: newFeed(rnd, lines)}
	var text strings.Builder
	for _, m := range tr.feed {
		text.WriteString(m.line + "\n")
	}
	tr.Write("feed.jsonl", text.String())
	if to == "" {
		tr.To = tr.Path("t.db")
	}
	tr.args = []string{"--table", "t", "--to", tr.To, "--delete-when", "op=delete", "--synchronous", level, "--batch-period", "20ms", "--retry-for", "60s", "-q"}
	if rnd.IntN(2) == 0 { // in the feed's order they change nothing
		tr.args = append(tr.args, "--version-field", "n")
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

// dial has the trial's runs read from a connection.
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

// make makes an empty database with a journal mode of its own.
func (tr *trial) make(journal string) {
	tr.Exec("PRAGMA journal_mode = "+journal, "CREATE TABLE theirs (a)")
}

// A snapshot is what a database held at one instant.
type snapshot struct {
	line    int // of the feed, by the checkpoint: the table has to be the fold of what comes before
	rows    map[string]string
	rejects []string // lines, in the order of the feed
}

var errNone = errors.New("nothing was committed")

// look reads the database.
func (tr *trial) look() (*snapshot, error) {
	db := tr.Open(tr.To, "rwc")
	defer db.Close()
	if !tr.isPostgres() {
		if _, err := os.Stat(tr.To); err != nil {
			return nil, errNone
		}
		var ok string
		if err := db.QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
			return nil, fmt.Errorf("integrity_check: %s, %w", ok, err)
		}
	}
	o := &sql.TxOptions{ReadOnly: true}
	if tr.isPostgres() {
		o.Isolation = sql.LevelRepeatableRead
	}
	tx, err := db.BeginTx(tr.Context(), o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	there := "SELECT count(*) FROM sqlite_schema WHERE name IN ('t', 'weir_checkpoints')"
	if tr.isPostgres() {
		there = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname IN ('t', 'weir_checkpoints')"
	}
	var tables int
	if err := tx.QueryRow(there).Scan(&tables); err != nil {
		return nil, err
	}
	if tables != 2 {
		return nil, errNone
	}
	s := &snapshot{rows: map[string]string{}}
	var mark string
	if err := tx.QueryRow("SELECT line, mark FROM weir_checkpoints").Scan(&s.line, &mark); err != nil {
		return nil, err
	}
	if tr.source == "tcp" {
		var position struct{ Feed struct{ Resume string } }
		if err := json.Unmarshal([]byte(mark), &position); err != nil {
			return nil, err
		}
		s.line, _ = strconv.Atoi(position.Feed.Resume)
	}
	rows, err := tx.Query("SELECT id, n, coalesce(a, 'NULL'), coalesce(b, 'NULL'), coalesce(c, 'NULL') FROM t")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, n, a, b, c string
		if err := rows.Scan(&id, &n, &a, &b, &c); err != nil {
			return nil, err
		}
		if _, twice := s.rows[id]; twice {
			return nil, fmt.Errorf("the row %s is there twice", id)
		}
		s.rows[id] = n + "|" + a + "|" + b + "|" + c
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	bad, err := tx.Query("SELECT raw FROM weir_rejects")
	if err != nil {
		return nil, err
	}
	defer bad.Close()
	for bad.Next() {
		var raw string
		if err := bad.Scan(&raw); err != nil {
			return nil, err
		}
		s.rejects = append(s.rejects, raw)
	}
	// Lines of a connection have no order over several runs.
	slices.SortFunc(s.rejects, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return s, bad.Err()
}

// verify demands that the table be the fold of exactly the lines before the checkpoint,
// and that each of the bad ones among them was kept once. It returns how many lines
// that is.
func (tr *trial) verify() int {
	tr.Helper()
	s, err := tr.look()
	if err == errNone {
		return 0
	}
	tr.Check(err)
	want := fold(tr.feed[:s.line])
	wrong := 0
	for id := range want {
		if s.rows[id] != want[id] {
			if wrong++; wrong < 4 {
				tr.Errorf("after line %d, row %s is %q, want %q", s.line, id, s.rows[id], want[id])
			}
		}
	}
	if len(s.rows) != len(want) || wrong > 0 {
		tr.Fatalf("after line %d: %d rows, want %d; %d of them are wrong", s.line, len(s.rows), len(want), wrong)
	}
	var bad []string
	for _, m := range tr.feed[:s.line] {
		if m.id == "" {
			bad = append(bad, m.line)
		}
	}
	if next := s.line; tr.source == "tcp" && next < len(tr.feed) && tr.feed[next].id == "" && slices.Contains(s.rejects, tr.feed[next].line) {
		bad = append(bad, tr.feed[next].line) // which has no resume value of its own
	}
	if strings.Join(bad, "\n") != strings.Join(s.rejects, "\n") {
		tr.Fatalf("after line %d: %d lines are kept as rejects, want %d", s.line, len(s.rejects), len(bad))
	}
	return s.line
}

// done waits until a run has ended, or until all is committed where it never does, and
// reports whether it read everything.
func (tr *trial) done(run *testweir.Run, killed <-chan struct{}) (all bool) {
	tr.Helper()
	finished := func() bool { // all is committed, by a run that never ends by itself
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
		// Else it was killed just then; a run that finds all done may not listen to signals yet.
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
