package settings

import "fmt"

// A UsageError is wrong usage of a command.
type UsageError struct{ Err error }

// Usage makes an error a usage error.
func Usage(err error) error { return UsageError{err} }

// Usagef returns a usage error.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

func (e UsageError) Error() string { return e.Err.Error() }
func (e UsageError) Unwrap() error { return e.Err }

// ExitCode returns the exit code of wrong usage.
func (e UsageError) ExitCode() int { return 2 }
