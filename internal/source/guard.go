package source

import (
	"fmt"
	"runtime/debug"
)

// A PanicError reports a bug in weir that an input triggered.
type PanicError struct {
	Value any
	Stack []byte // the goroutine's stack
}

func (e *PanicError) Error() string { return fmt.Sprintf("internal error: %v\n%s", e.Value, e.Stack) }

// Guard calls do, and returns a panic in it as a [*PanicError]: a panic over what a connection sends ends that
// connection, not the process.
func Guard(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return do()
}
