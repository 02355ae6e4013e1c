//go:build !unix

package pgserver

import "errors"

// A Server is a private Postgres, which is supported only on Unix.
type Server struct{ Private bool }

// New fails.
func New(string, string, ...string) (*Server, error) {
	return nil, errors.New("weir starts Postgres servers of its own only on Unix")
}

// Find returns "".
func Find() string { return "" }

// Init is never called.
func (*Server) Init() error { return nil }

// Start is never called.
func (*Server) Start() error { return nil }

// Stop is never called.
func (*Server) Stop() {}

// PID is never called.
func (*Server) PID() int { return 0 }

// URL is never called.
func (*Server) URL(string) string { return "" }
