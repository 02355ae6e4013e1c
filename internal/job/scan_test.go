package job

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
)

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
