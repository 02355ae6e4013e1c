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

// Guard calls do, and returns a panic of it as a [*PanicError]: what one connection sends ends
// that connection, and what is in a line the run, with an error that says where; never the process.
func Guard(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return do()
}
