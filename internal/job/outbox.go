package job

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/backoff"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

const (
	// Waits before letters that failed are sent again.
	outboxMinWait = time.Second
	outboxMaxWait = time.Minute
	// outboxDrainLimit is how long a run waits at its end for the next letter to be sent.
	outboxDrainLimit = 10 * time.Second
)

// An outbox sends rejected lines from weir_rejects to the topic of dead letters. It removes them once the brokers have
// acknowledged them. It sends the waiting letters in rounds. A nil outbox does nothing.
type outbox struct {
	job, topic string
	src        source.DeadLetters
	db         sink.DeadLetters
	log        *slog.Logger
	turns      *turns
	wake       chan struct{} // letters may be waiting
	sent       chan struct{} // letters were sent
	waits      backoff.Backoff

	// reread are, with --restart reread, the lanes that are read again, whose old letters are discarded. nil: old
	// letters are sent too. The flusher owns it.
	reread map[string]bool
}

// newOutbox returns the outbox of a run that begins at some starts, or nil if it has none.
func (a *attempt) newOutbox(src source.Source, starts []start, turns *turns) (*outbox, error) {
	c := a.run.cfg
	if c.Rejects.To.mode != toTopic || a.run.looks {
		return nil, nil
	}
	db, err := sink.As[sink.DeadLetters](a.run.db, "keep rejected lines for a topic")
	if err != nil {
		return nil, err
	}
	letters, ok := src.(source.DeadLetters)
	if !ok {
		return nil, fmt.Errorf("--rejects topic:%s: a source of this kind cannot send rejected records", c.Rejects.To.topic)
	}
	b := &outbox{job: c.Job, topic: c.Rejects.To.topic, src: letters, db: db, log: c.Log, turns: turns, wake: make(chan struct{}, 1), sent: make(chan struct{}, 1),
		waits: backoff.Backoff{Min: outboxMinWait, Max: outboxMaxWait}}
	if c.Restart.FromStart {
		b.reread = map[string]bool{}
		for i := range starts {
			b.reread[starts[i].name] = a.admission.hasBegun(&starts[i])
		}
	}
	return b, nil
}

// wakeUp signals that letters may be waiting.
func (b *outbox) wakeUp() {
	if b != nil {
		notify(b.wake)
	}
}

// notify puts a value into a channel of capacity 1, unless it is full.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// committed records a flush.
func (b *outbox) committed(f *sink.Flush, rejects int) {
	if b == nil {
		return
	}
	if b.reread != nil {
		for i := range f.Lanes {
			b.reread[f.Lanes[i].Source] = true
		}
	}
	if rejects > 0 {
		b.wakeUp()
	}
}

// run sends the waiting letters until the run ends. It then sends the rest, as long as that makes progress.
func (b *outbox) run(ctx context.Context) error {
	if b == nil {
		return nil
	}
	s, err := b.src.NewSender()
	if err != nil {
		return err
	}
	var draining sync.WaitGroup
	defer draining.Wait()
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	draining.Go(func() {
		defer s.Close() // no context ends a call that waits for the answer to a letter
		defer cancel()
		b.limitDrain(sending)
	})
	var retry <-chan time.Time
	wake, written, last := b.wake, b.turns.written, false
	for {
		select {
		case <-wake:
		case <-retry:
		case <-written:
			written, last = nil, true
		case <-sending.Done():
			return b.warnUnsent(ctx)
		}
		ok, err := b.pass(ctx, sending, s)
		switch {
		case err != nil || ok && last:
			return err
		case ok:
			wake, retry = b.wake, nil
		default:
			wait, _ := b.waits.Next(math.MaxInt64)
			wake, retry = nil, time.After(wait)
		}
	}
}

// limitDrain returns once everything is written and no letter was sent for a while, or when sending ends.
func (b *outbox) limitDrain(sending context.Context) {
	select {
	case <-b.turns.written:
	case <-sending.Done():
		return
	}
	for limit := time.NewTimer(outboxDrainLimit); ; {
		select {
		case <-b.sent:
			select {
			case <-b.turns.stop: // it does not wait long
			default:
				limit.Reset(outboxDrainLimit)
			}
		case <-limit.C:
			return
		case <-sending.Done():
			return
		}
	}
}

// pass sends the waiting letters, until sending ends. ok reports whether all were sent.
func (b *outbox) pass(ctx, sending context.Context, s source.Sender) (ok bool, err error) {
	ok = true
	for next := (sink.Outbox{}); ; {
		kept, _, err := b.read(ctx, &next)
		switch {
		case err != nil:
			return false, err
		case len(kept) == 0 && ok:
			b.waits.Reset()
			return true, nil
		case len(kept) == 0 || sending.Err() != nil:
			return false, nil
		}
		letters := make([]source.Letter, len(kept))
		for i, k := range kept {
			letters[i] = source.Letter{ID: k.ID, Lane: k.Source, Offset: k.Offset, Reason: k.Reason, Text: k.Text}
		}
		next.After = kept[len(kept)-1].ID
		if next.Sent, err = s.Send(sending, letters); err != nil {
			if ok && sending.Err() == nil {
				b.log.Warn(fmt.Sprintf("sending rejected records to topic %s: %v; they wait in weir_rejects; retrying", b.topic, err))
			}
			ok = false
		}
		if len(next.Sent) > 0 {
			notify(b.sent)
		}
	}
}

// read removes the letters that were sent and reads the next ones. waiting is how many are left in the database.
func (b *outbox) read(ctx context.Context, next *sink.Outbox) (kept []sink.Kept, waiting int64, err error) {
	err = b.turns.take(ctx, func(ctx context.Context) (err error) {
		next.Job, next.Lanes = b.job, nil
		for _, name := range b.src.Owned() {
			if b.reread == nil || b.reread[name] {
				next.Lanes = append(next.Lanes, name)
			}
		}
		kept, waiting, err = b.db.Outbox(ctx, next)
		return err
	})
	if err != nil {
		err = fmt.Errorf("reading dead letters from weir_rejects: %w", err)
	}
	return kept, waiting, err
}

// warnUnsent logs how many letters are left for the next run.
func (b *outbox) warnUnsent(ctx context.Context) error {
	_, n, err := b.read(ctx, &sink.Outbox{After: math.MaxInt64})
	if err == nil && n > 0 {
		b.log.Warn(fmt.Sprintf("rejected records that were not sent to topic %s: %d; they wait in weir_rejects, and the next run sends them", b.topic, n))
	}
	return err
}
