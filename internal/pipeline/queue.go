package pipeline

import "context"

// A dbQueue lets the reader use the database between two flushes: the flusher's goroutine runs its functions.
type dbQueue chan query

type query struct {
	do   func(context.Context) error
	done chan error // receives one value
}

// take runs a function between two flushes and waits for it.
func (q dbQueue) take(ctx context.Context, do func(context.Context) error) error {
	asked := query{do, make(chan error, 1)}
	select {
	case q <- asked:
		return <-asked.done
	case <-ctx.Done():
		return ctx.Err()
	}
}
