//go:build !linux

package experiment

import "errors"

// A memoryLimit is of Linux alone.
type memoryLimit struct{}

func limitMemory(int64) (*memoryLimit, error) {
	return nil, errors.New("memory can be limited on Linux alone")
}

func (*memoryLimit) end() error { return nil }
