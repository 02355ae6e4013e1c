package source

import (
	"fmt"
	"runtime/debug"
)

// A PanicError says that weir itself failed on an input.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v\n%s", e.Value, e.Stack) }

// Guard calls read, and returns a panic of it as a [*PanicError]: what one connection sends ends
// that connection, never the process.
func Guard(read func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return read()
}
