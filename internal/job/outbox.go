package job

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

const (
	// Waits before letters are sent again that were not taken.
	outboxMinWait = time.Second
	outboxMaxWait = time.Minute
	// outboxPatience is how long a run waits at its end for letters to be sent, or for more of them.
	outboxPatience = 10 * time.Second
)

// An outbox sends rejected records to the topic of dead letters: from weir_rejects, where they are
// removed when the brokers have them. It works in passes through those that wait. A nil outbox does
// nothing.
type outbox struct {
	src     source.DeadLetters
	db      sink.DeadLetters
	letters chan []source.Letter // for the sender, one chunk at a time
	answers chan answer          // of the sender
	wake    chan struct{}        // more letters may wait

	// What follows is the flusher's.
	passing bool // a pass is under way
	after   int64
	failed  bool // not all of this pass, or of the last one, were sent
	waits   backoff.Backoff
	due     time.Time       // when the next pass begins if the last one has failed
	read    map[string]bool // lanes that are read again from the start, and whose old letters are gone; nil: all others, too
}

// An answer is what became of a chunk.
type answer struct {
	last int64 // ID
	sent []int64
	err  error // why others were not sent
}

// newOutbox returns the outbox of a run that begins at some starts, nil where it has none.
func (r *run) newOutbox(src source.Source, starts []start) (*outbox, error) {
	if r.Rejects.mode != toTopic || r.lookedAt {
		return nil, nil
	}
	db, err := sink.As[sink.DeadLetters](r.db, "keep rejected lines for a topic")
	if err != nil {
		return nil, err
	}
	letters, ok := src.(source.DeadLetters)
	if !ok {
		return nil, fmt.Errorf("--rejects topic:%s: a source of this kind cannot send rejected records", r.Rejects.topic)
	}
	b := &outbox{src: letters, db: db, letters: make(chan []source.Letter, 1), answers: make(chan answer, 1), wake: make(chan struct{}, 1),
		waits: backoff.Backoff{Min: outboxMinWait, Max: outboxMaxWait}}
	if r.FromStart {
		b.read = map[string]bool{}
		for i := range starts {
			b.read[starts[i].name] = r.hasBegun(&starts[i])
		}
	}
	return b, nil
}

// send sends what the flusher asks for, until ctx ends.
func (b *outbox) send(ctx context.Context) error {
	if b == nil {
		return nil
	}
	s, err := b.src.NewSender()
	if err != nil {
		return err
	}
	var closing sync.WaitGroup
	defer closing.Wait()
	closing.Go(func() {
		<-ctx.Done()
		s.Close() // no context ends a call that has sent a letter and got no answer
	})
	for {
		select {
		case letters := <-b.letters:
			a := answer{last: letters[len(letters)-1].ID}
			a.sent, a.err = s.Send(ctx, letters)
			b.answers <- a // there is room here, too
		case <-ctx.Done():
			return nil
		}
	}
}

// more says that letters may wait.
func (b *outbox) more() {
	if b == nil {
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// committed notes a flush.
func (b *outbox) committed(f *sink.Flush, rejects int) {
	if b == nil {
		return
	}
	if b.read != nil {
		for i := range f.Lanes {
			b.read[f.Lanes[i].Source] = true
		}
	}
	if rejects > 0 {
		b.more()
	}
}

// woken, answered and retryDue are what the flusher waits for.
func (b *outbox) woken() <-chan struct{} {
	if b == nil || b.passing || b.failed {
		return nil
	}
	return b.wake
}

func (b *outbox) answered() <-chan answer {
	if b == nil {
		return nil
	}
	return b.answers
}

func (b *outbox) retryDue() <-chan time.Time {
	if b == nil || b.passing || !b.failed {
		return nil
	}
	return time.After(time.Until(b.due))
}

// pass begins a pass.
func (b *outbox) pass(ctx context.Context, f *flusher) error {
	b.passing, b.failed, b.after = true, false, 0
	_, err := b.next(ctx, f, nil)
	return err
}

// next removes what was sent, and hands over the next chunk. It returns how many letters wait.
func (b *outbox) next(ctx context.Context, f *flusher, sent []int64) (waiting int64, err error) {
	var lanes []string
	for _, name := range b.src.Owned() {
		if b.read == nil || b.read[name] {
			lanes = append(lanes, name)
		}
	}
	kept, waiting, err := b.db.Outbox(ctx, &sink.Outbox{Job: f.Job, Lanes: lanes, After: b.after, Sent: sent})
	if err != nil {
		return 0, fmt.Errorf("reading dead letters from weir_rejects: %w", err)
	}
	if len(kept) == 0 {
		b.passing = false
		if !b.failed {
			b.waits.Reset()
			return waiting, nil
		}
		wait, _ := b.waits.Next(math.MaxInt64)
		b.due = time.Now().Add(wait)
		return waiting, nil
	}
	letters := make([]source.Letter, len(kept))
	for i, k := range kept {
		letters[i] = source.Letter{ID: k.ID, Lane: k.Source, Offset: k.Offset, Reason: k.Reason, Text: k.Text}
	}
	b.letters <- letters // there is room, as one chunk is under way at a time
	return waiting, nil
}

// took deals with an answer.
func (b *outbox) took(ctx context.Context, f *flusher, a answer) error {
	b.after = a.last
	if a.err != nil {
		if !b.failed {
			f.Log.Warn(fmt.Sprintf("sending rejected records to topic %s: %v; they wait in weir_rejects; retrying", f.Rejects.topic, a.err))
		}
		b.failed = true
	}
	_, err := b.next(ctx, f, a.sent)
	return err
}

// finish sends what waits at the end of a run, as long as that gets on; when stop is closed, it does not
// wait for long.
func (b *outbox) finish(ctx context.Context, f *flusher, stop <-chan struct{}) error {
	if b == nil {
		return nil
	}
	end := time.After(outboxPatience)
	for last := false; ; {
		if !b.passing && (!last || !b.failed) {
			if last {
				return nil
			}
			last = true
			if err := b.pass(ctx, f); err != nil {
				return err
			}
			continue
		}
		var err error
		select {
		case a := <-b.answers:
			select {
			case <-stop:
			default:
				if len(a.sent) > 0 {
					end = time.After(outboxPatience)
				}
			}
			err = b.took(ctx, f, a)
		case <-b.retryDue():
			err = b.pass(ctx, f)
		case <-end:
			return b.left(ctx, f)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// left logs how many letters the next run has to send.
func (b *outbox) left(ctx context.Context, f *flusher) error {
	b.after = math.MaxInt64
	n, err := b.next(ctx, f, nil)
	if err == nil && n > 0 {
		f.Log.Warn(fmt.Sprintf("rejected records that were not sent to topic %s: %d; they wait in weir_rejects, and the next run sends them", f.Rejects.topic, n))
	}
	return err
}
