package kafka

import (
	"context"
	"sync"
	"sync/atomic"
)

// background runs a loop on a goroutine of its own. end ends it, and waits until it has ended.
func background(loop func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { loop(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// An interrupter has any goroutine end what another one waits for.
type interrupter struct {
	cancel atomic.Pointer[context.CancelFunc]
}

// context returns the context to wait with, which the next interrupt ends.
func (i *interrupter) context(of context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(of)
	i.cancel.Store(&cancel)
	return ctx, cancel
}

func (i *interrupter) interrupt() {
	if cancel := i.cancel.Load(); cancel != nil {
		(*cancel)()
	}
}
