package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/source"
)

// TestReader_FillsABatchWhileItIsBehind: a batch of a followed file or of Kafka is written after its period if there is
// nothing more to read, else after the longer one.
func TestReader_FillsABatchWhileItIsBehind(t *testing.T) {
	for name, test := range map[string]struct {
		age            time.Duration
		prompt, behind bool
		due            bool
	}{
		"before its period":                {time.Second / 4, true, true, false},
		"with more to read":                {2 * time.Second, false, true, false},
		"with more to read, for long":      {catchUpPeriod + time.Second, false, true, true},
		"with nothing to read":             {2 * time.Second, false, false, true},
		"promptly, whatever there is more": {2 * time.Second, true, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rd := &reader{run: &run{}, scans: &scanPool{events: make(chan *event, 1)}, free: make(chan *set, 2), set: &set{Set: fold.NewSet(0)}}
			rd.free <- nil
			rd.set.first, rd.set.period, rd.set.prompt = time.Now().Add(-test.age), time.Second, test.prompt
			e := &event{ready: make(chan struct{}, 1)}
			e.ready <- struct{}{}
			if test.behind {
				rd.scans.events <- e
			} else {
				time.AfterFunc(10*time.Millisecond, func() { close(rd.scans.events) })
			}
			if _, err := rd.next(t.Context()); err != nil {
				t.Fatal(err)
			}
			if due := rd.set.first.IsZero(); due != test.due { // an empty set that is handed over begins again
				t.Errorf("written: %v, want %v", due, test.due)
			}
		})
	}
}

// pausing gives blocks, with a pause between them.
type pausing struct {
	blocks []string
	pause  time.Duration
	at     int64
}

func (p *pausing) Next(context.Context) (source.Event, error) {
	if len(p.blocks) == 0 {
		return source.Event{}, io.EOF
	}
	if p.at > 0 {
		time.Sleep(p.pause)
	}
	b := &source.Block{Data: []byte(p.blocks[0]), Offset: p.at}
	p.blocks, p.at = p.blocks[1:], p.at+int64(len(p.blocks[0]))
	return source.Event{Block: b}, nil
}

// TestMaxRate_AtEveryInstant: no more lines come in any time than that time's and one
// second's, in a small file too and after a pause, and none is lost or moved by it.
func TestMaxRate_AtEveryInstant(t *testing.T) {
	const perSecond, lines = 1000, 3500
	block := func(from int) string {
		var b strings.Builder
		for i := range lines {
			fmt.Fprintf(&b, `{"id":%d}`+"\n", from+i)
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	synctest.Test(t, func(t *testing.T) {
		in := &pausing{blocks: []string{block(0) + "\n", block(lines)}, pause: time.Minute}
		p, l := newScanPool(&feed.Names{}, newLimiter(perSecond)), &lane{}
		ended := make(chan bool)
		go func() {
			defer close(ended)
			p.run(func() error {
				for {
					e, err := in.Next(t.Context())
					if err == nil {
						err = p.put(t.Context(), t.Context(), l, e)
					}
					if err != nil {
						return err
					}
				}
			})
		}()
		type moment struct {
			at    time.Time
			lines int
		}
		seen := []moment{{time.Now(), 0}}
		var offset int64
		for s := range p.events {
			<-s.ready
			if s.Offset != offset {
				t.Fatalf("a block at %d, want %d", s.Offset, offset)
			}
			offset += int64(len(s.Data))
			last := seen[len(seen)-1]
			for i, l := range s.lines {
				if want := fmt.Sprintf(`{"id":%d}`, last.lines+i); string(l.Text) != want {
					t.Fatalf("%s, want %s", l.Text, want)
				}
			}
			seen = append(seen, moment{time.Now(), last.lines + len(s.lines)})
			p.release(s)
		}
		<-ended
		if got := seen[len(seen)-1].lines; got != 2*lines {
			t.Errorf("%d lines came", got)
		}
		for i, from := range seen {
			for _, to := range seen[i+1:] {
				if n, most := to.lines-from.lines, perSecond+int(to.at.Sub(from.at).Seconds()*perSecond)+1; n > most {
					t.Fatalf("%d lines within %v: at most %d", n, to.at.Sub(from.at), most)
				}
			}
		}
		// There is nothing to take at the start, and a second's lines after the pause.
		if took, want := time.Since(seen[0].at), time.Minute+(2*lines-perSecond)*time.Second/perSecond; took < want || took > want+time.Second {
			t.Errorf("it took %v, want %v", took, want)
		}
	})
}

// TestScanPool_LongBlocksOfSourcesThatEnd: that nobody waits any more until they are folded holds
// up nobody.
func TestScanPool_LongBlocksOfSourcesThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ended := newScanPool(&feed.Names{}, nil), make(chan bool)
		putting, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(ended)
			p.run(func() error {
				var all sync.WaitGroup
				for range cap(p.events) {
					all.Go(func() {
						_ = p.put(t.Context(), putting, &lane{}, source.Event{Block: &source.Block{Data: make([]byte, longBlock+1)}})
					})
				}
				all.Wait()
				return nil
			})
		}()
		synctest.Wait()
		cancel() // one of the sources has failed
		for e := range p.events {
			<-e.ready
			p.release(e)
		}
		<-ended
	})
}

// TestChanges_Envelope: a preset that means something else is another setting, whatever its name.
func TestChanges_Envelope(t *testing.T) {
	f := func(was, is, want string) {
		t.Helper()
		words, rebuild, _ := changes(&settings{Flags: map[string]string{"envelope": was}}, &settings{Flags: map[string]string{"envelope": is}})
		if !slices.Equal(words, []string{want}) || !rebuild {
			t.Errorf("%q: %v", words, rebuild)
		}
	}
	f("debezium sha256:1", "debezium sha256:2", "--envelope has changed")
	f("debezium sha256:1", "maxwell sha256:2", `--envelope was "debezium" and is "maxwell"`)
	f("", "maxwell sha256:2", `--envelope was not set and is "maxwell"`)
}

// TestReader_PanicOfHandingOver: the run ends with an error, and the set is not written.
func TestReader_PanicOfHandingOver(t *testing.T) {
	for name, e := range map[string]*event{
		"when no more comes": nil,
		"for one who waits":  {lane: &lane{}, of: source.Event{Kind: source.Closing, Done: func() {}}, ready: make(chan struct{}, 1)},
		"after an error":     {lane: &lane{}, of: source.Event{Kind: source.Data}, Block: &source.Block{}, failed: io.ErrUnexpectedEOF, ready: make(chan struct{}, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			full, free := make(chan *set, 1), make(chan *set, 2)
			s := &set{Set: fold.NewSet(1)} // of a table that the run does not have, so that it cannot be sealed
			s.Reject(fold.Reject{})
			free <- s
			rd := &reader{run: &run{p: progress.New()}, scans: &scanPool{events: make(chan *event, 1)}, full: full, free: free}
			if e != nil {
				e.ready <- struct{}{}
				rd.scans.events <- e
			}
			close(rd.scans.events)
			err := rd.fill(t.Context(), t.Context())
			if err = errors.Join(err, rd.failed); !errors.As(err, new(*source.PanicError)) || len(full) > 0 {
				t.Errorf("%v, sets to write: %d", err, len(full))
			}
		})
	}
}
