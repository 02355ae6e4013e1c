//go:build unix

package spool

import (
	"errors"
	"os"
)

// Sync implements [FS].
func (f folder) Sync() error {
	d, err := os.Open(string(f))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
