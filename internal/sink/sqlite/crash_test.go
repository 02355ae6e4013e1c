package sqlite_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/sink/sinktest"
)

// message is a line of a feed, and what it does.
type message struct {
	line    string
	id      int
	deletes bool
	bad     bool
	fields  map[string]any // nil, bool, int, float64, string
}

func randomMessages(rnd *rand.Rand, n int) []message {
	texts := []string{"", "a", "007", "Zürich", "日本 😀", "'\"", "tab\t", "null", "1.50"}
	ids := n/10 + 1
	all := make([]message, n)
	for i := range all {
		m := &all[i]
		if rnd.IntN(200) == 0 {
			m.bad, m.line = true, `{"id":`
			continue
		}
		m.id = rnd.IntN(ids)
		if rnd.IntN(15) == 0 {
			m.deletes, m.line = true, fmt.Sprintf(`{"op":"delete","id":"%d"}`, m.id)
			continue
		}
		m.fields = map[string]any{}
		for c := range 8 {
			name := fmt.Sprintf("c%d", c)
			switch k := rnd.IntN(12); {
			case k < 6:
			case k == 6:
				m.fields[name] = nil
			case c%4 == 0:
				m.fields[name] = texts[rnd.IntN(len(texts))]
			case c%4 == 1:
				m.fields[name] = rnd.IntN(2000) - 1000
			case c%4 == 2:
				m.fields[name] = float64(rnd.IntN(1000)) + 0.25
			default:
				m.fields[name] = rnd.IntN(2) == 0
			}
		}
		fields := map[string]any{"id": m.id}
		for k, v := range m.fields {
			fields[k] = v
		}
		line, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		m.line = string(line)
	}
	return all
}

// plainFold is the fold of messages, as text: absent and NULL are both "".
func plainFold(messages []message) (rows map[string]map[string]string, bad int) {
	rows = map[string]map[string]string{}
	for _, m := range messages {
		id := strconv.Itoa(m.id)
		switch {
		case m.bad:
			bad++
		case m.deletes:
			delete(rows, id)
		default:
			if rows[id] == nil {
				rows[id] = map[string]string{}
			}
			for k, v := range m.fields {
				if rows[id][k] = cell(v); v == nil {
					delete(rows[id], k)
				}
			}
		}
	}
	return rows, bad
}

// cell is a value as text; true and false are 1 and 0 in a column without a type.
func cell(v any) string {
	if b, ok := v.(bool); ok {
		v = map[bool]int{true: 1, false: 0}[b]
	}
	return fmt.Sprintf("=%v", v)
}

// checkFold demands that the file hold the fold of exactly the lines before its
// checkpoint, and returns how many these are.
func checkFold(t *testing.T, f *file, messages []message) int {
	t.Helper()
	if s := f.one(t, "PRAGMA integrity_check"); s != "ok" {
		t.Fatalf("integrity_check: %s", s)
	}
	if f.one(t, "SELECT count(*) FROM sqlite_schema WHERE name = 't'") == "0" {
		return 0
	}
	at := int(f.Query(t, "SELECT line FROM weir_checkpoints")[0][0].(int64))
	want, bad := plainFold(messages[:at])
	if got := f.Query(t, "SELECT count(*), count(DISTINCT line), coalesce(max(line), 0) FROM weir_rejects")[0]; got[0] != int64(bad) || got[1] != int64(bad) || got[2].(int64) > int64(at) {
		t.Errorf("after line %d: %v lines were rejected, %v of them different, the last is %v; want %d", at, got[0], got[1], got[2], bad)
	}
	got := map[string]map[string]string{}
	var names []string
	for _, row := range f.Query(t, "SELECT name FROM pragma_table_info('t')") {
		names = append(names, row[0].(string))
	}
	for _, row := range f.Query(t, "SELECT * FROM t") {
		cells, id := map[string]string{}, ""
		for i, v := range row {
			if names[i] == "id" {
				id = fmt.Sprint(v)
			} else if v != nil {
				cells[names[i]] = cell(v)
			}
		}
		got[id] = cells
	}
	faults := 0
	for id := range want {
		if fmt.Sprint(got[id]) != fmt.Sprint(want[id]) || got[id] == nil {
			if faults++; faults < 5 {
				t.Errorf("after line %d: row %s is\n %v, want\n %v", at, id, got[id], want[id])
			}
		}
	}
	if len(got) != len(want) || faults > 0 {
		t.Fatalf("after line %d: %d rows, want %d; %d of them are wrong", at, len(got), len(want), faults)
	}
	return at
}

// TestSync_KilledAtRandomMoments kills weir with SIGKILL again and again, at any
// level of durability. After each kill the table is the fold of the lines before
// the checkpoint, and the next run goes on from there.
func TestSync_KilledAtRandomMoments(t *testing.T) {
	const kills = 24
	sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
		messages := randomMessages(rnd, 12000)
		var feed strings.Builder
		for _, m := range messages {
			feed.WriteString(m.line + "\n")
		}
		landed, advanced, rounds := 0, 0, 0
		life := 100 * time.Millisecond // about how long a run takes
		for ; landed < kills; rounds++ {
			if rounds > 100 {
				t.Fatalf("did not exercise: %d kills landed in %d rounds", landed, rounds)
			}
			dir := t.TempDir()
			f := newFile(t, filepath.Join(dir, "t.db"))
			path := write(t, filepath.Join(dir, "t.jsonl"), feed.String())
			level := []string{"off", "normal", "full", "extra"}[rounds%4]
			if rounds%3 == 2 {
				f.Exec(t, "CREATE TABLE theirs (a)") // not in WAL mode
			}
			for at := 0; ; {
				c := command(t, "weir", nil, "sync", path, "--to", f.path, "--table", "t", "--delete-when", "op=delete",
					"--synchronous", level, "--batch-rows", strconv.Itoa(1+rnd.IntN(40)))
				var errs strings.Builder
				c.Stderr = &errs
				start := time.Now()
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				kill := time.AfterFunc(time.Duration(rnd.Int64N(int64(life))), func() { _ = c.Process.Kill() })
				err := c.Wait()
				kill.Stop()
				now := checkFold(t, f, messages)
				if now < at {
					t.Fatalf("the checkpoint went back from line %d to %d", at, now)
				}
				if c.ProcessState.ExitCode() == 3 || c.ProcessState.ExitCode() == 0 { // bad lines are in the feed, perhaps not in its rest
					if now != len(messages) {
						t.Fatalf("the run ended well at line %d of %d", now, len(messages))
					}
					life = (life + time.Since(start)) / 2
					break
				}
				if status := c.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
					t.Fatalf("the run ended by itself: %v: %s", err, errs.String())
				}
				landed++
				if life = life * 5 / 4; now > at {
					advanced++
				}
				at = now
			}
		}
		if advanced < kills/3 {
			t.Errorf("did not exercise: only %d of %d kills came after a batch was written", advanced, landed)
		}
		t.Logf("%d kills in %d rounds, %d of them after batches were written", landed, rounds, advanced)
	})
}
