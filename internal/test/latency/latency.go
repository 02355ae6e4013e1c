// Package latency delays writes, like a network.
package latency

import (
	"io"
	"time"
)

// A Line writes what it is sent after a delay, in order. Data in transit does not delay later data. Only one
// goroutine may send.
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

// NewLine returns a line to a writer. It ignores write errors: the reader at the other end sees that the connection
// is closed.
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

// Send writes data after a delay. The line then owns data.
func (l *Line) Send(data []byte, delay time.Duration) {
	l.ch <- delayed{due: time.Now().Add(delay), data: data}
}

// Flush waits until everything that was sent is written.
func (l *Line) Flush() {
	done := make(chan struct{})
	l.ch <- delayed{after: done}
	<-done
}

// Close closes the line after everything that was sent is written.
func (l *Line) Close() {
	close(l.ch)
	<-l.done
}
