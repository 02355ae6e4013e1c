package spec

import "fmt"

// A UsageError is a fault of what a command was told.
type UsageError struct{ Err error }

// Usage makes an error one of usage.
func Usage(err error) error { return UsageError{err} }

// Usagef is an error of usage.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode is the exit code for wrong usage.
func (e UsageError) ExitCode() int { return 2 }
