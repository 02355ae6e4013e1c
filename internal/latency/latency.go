// Package latency delays what is written, as a network does.
package latency

import (
	"io"
	"time"
)

// A Line writes what it is sent after a time, in order; what is under way does not hold up what comes
// behind it. One goroutine sends.
type Line struct {
	to   io.Writer
	ch   chan delayed
	done chan struct{}
}

type delayed struct {
	due   time.Time
	data  []byte
	after chan struct{}
}

// NewLine returns a line to a writer, whose errors it passes over: who reads from the other end of a
// connection sees that it is closed.
func NewLine(to io.Writer) *Line {
	l := &Line{to: to, ch: make(chan delayed, 4096), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		for d := range l.ch {
			if wait := time.Until(d.due); wait > 0 {
				time.Sleep(wait)
			}
			if d.data != nil {
				_, _ = l.to.Write(d.data)
			}
			if d.after != nil {
				close(d.after)
			}
		}
	}()
	return l
}

// Send has data, which is the line's from now on, written after a time.
func (l *Line) Send(data []byte, delay time.Duration) {
	l.ch <- delayed{due: time.Now().Add(delay), data: data}
}

// Flush waits until all that was sent is written.
func (l *Line) Flush() {
	done := make(chan struct{})
	l.ch <- delayed{after: done}
	<-done
}

// Close ends the line when all that was sent is written.
func (l *Line) Close() {
	close(l.ch)
	<-l.done
}
