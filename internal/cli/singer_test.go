package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testweir"
)

// A tapped is a target that reads a tap of a log of changes, and the last state that it has printed.
type tapped struct {
	*testweir.Folder
	changes []string // records of the streams a and b, in the order of the log
	state   int      // changes up to which the target has them; the last that it has printed
}

// tap writes changes from a state on up to a number of them, as taps do: each stream with its schema, and a state
// now and then.
func (s *tapped) tap(to io.Writer, rnd *rand.Rand, upto int) {
	w := bufio.NewWriter(to)
	for _, stream := range []string{"a", "b"} {
		fmt.Fprintf(w, `{"type":"SCHEMA","stream":%q,"schema":{"type":"object","properties":{"id":{"type":"integer"},"n":{"type":"integer"},"at":{"type":["null","string"],"format":"date-time"}}},"key_properties":["id"]}`+"\n", stream)
	}
	for n, change := range s.changes[s.state:upto] {
		fmt.Fprintln(w, change)
		if at := s.state + n + 1; rnd.IntN(50) == 0 || n == 20 || at == len(s.changes) {
			fmt.Fprintf(w, `{"type":"STATE","value":{"upto":%d}}`+"\n", at)
		}
	}
	_ = w.Flush() // the target may have been killed
}

// run has the target read the tap from its last state on up to a number of changes, and kills it once it has
// printed a state, unless these are all.
func (s *tapped) run(rnd *rand.Rand, upto int) {
	s.Helper()
	c := s.Command("sync", "--envelope", "singer", "--to", s.To, "--batch-period", "20ms", "--batch-rows", "300", "-q")
	c.Stdout = nil
	in, err := c.StdinPipe()
	s.Check(err)
	out, err := c.StdoutPipe()
	s.Check(err)
	c.Start()
	all, state, done := upto == len(s.changes), s.state, make(chan struct{})
	go func() {
		defer close(done)
		if s.tap(in, rnd, upto); all {
			_ = in.Close()
		}
	}()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var printed struct{ Upto int }
		s.Check(json.Unmarshal(lines.Bytes(), &printed))
		if printed.Upto <= state {
			s.Errorf("the state %d comes behind %d", printed.Upto, state)
		}
		if state = printed.Upto; !all {
			c.Kill()
		}
	}
	code := c.Wait()
	<-done
	s.state = state
	if all && code != 0 {
		s.Fatalf("exit %d\n%s", code, c.Log())
	}
	s.compare()
	if all && s.state != len(s.changes) {
		s.Errorf("the last state is %d of %d", s.state, len(s.changes))
	}
}

// compare demands that each row has what the changes up to the state gave it, or later ones, which are committed
// before their state is printed.
func (s *tapped) compare() {
	s.Helper()
	type row struct {
		stream string
		id     int
	}
	want := map[row]int{}
	for _, change := range s.changes[:s.state] {
		var c struct {
			Stream string
			Record struct {
				ID, N   int
				Deleted *string `json:"_sdc_deleted_at"`
			}
		}
		s.Check(json.Unmarshal([]byte(change), &c))
		if want[row{c.Stream, c.Record.ID}] = c.Record.N; c.Record.Deleted != nil {
			want[row{c.Stream, c.Record.ID}] = -1
		}
	}
	have := map[row]int{}
	for _, stream := range []string{"a", "b"} {
		for _, line := range strings.Fields(s.Ask("SELECT id, n FROM " + stream)) {
			var id, n int
			if _, err := fmt.Sscanf(line, "%d|%d", &id, &n); err != nil {
				if s.state > 0 {
					s.Fatalf("%s: %v", line, err)
				}
				return // there are no tables yet
			}
			have[row{stream, id}] = n
		}
	}
	all := s.state == len(s.changes)
	for r, n := range want {
		got, ok := have[r]
		switch {
		case n < 0 && ok && (all || got <= s.state):
			s.Errorf("%v: %d, want none", r, got)
		case n >= 0 && !ok && all, n >= 0 && ok && (got < n || all && got != n):
			s.Errorf("%v: %d, %v, want %d", r, got, ok, n)
		}
	}
	if all {
		for r, n := range have {
			if was, known := want[r]; !known || was < 0 {
				s.Errorf("%v: %d, want none", r, n)
			}
		}
	}
}

// TestSinger_Killed: whenever a target is killed, the database has all that came before the last state that it has
// printed, and a tap that resumes there makes the same tables as without.
func TestSinger_Killed(t *testing.T) {
	testcheck.Only(t)
	t.Parallel()
	intoBoth(t, func(t *testing.T, to func(testing.TB) string) {
		t.Parallel()
		sinktest.Seeds(t, 1, func(t *testing.T, rnd *rand.Rand) {
			s := &tapped{Folder: testweir.New(t, to(t))}
			for n := 1; n <= 4000; n++ {
				more := ""
				switch rnd.IntN(6) {
				case 0:
					more = `,"_sdc_deleted_at":"2024-01-02T03:04:05Z"`
				case 1:
					more = `,"at":null`
				case 2:
					more = fmt.Sprintf(`,"at":"2024-01-02 03:04:%02d+00"`, rnd.IntN(60))
				}
				s.changes = append(s.changes, fmt.Sprintf(`{"type":"RECORD","stream":%q,"record":{"id":%d,"n":%d%s}}`, []string{"a", "b"}[rnd.IntN(2)], rnd.IntN(400), n, more))
			}
			for range 4 {
				s.run(rnd, s.state+30+rnd.IntN(600))
			}
			s.run(rnd, len(s.changes))
		})
	})
}
