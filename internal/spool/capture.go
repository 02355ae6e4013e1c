package spool

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Keep compresses content into a file of the folder, whose name is the given one, with
// a number where that is taken.
func Keep(fs FS, name string, content io.Reader) error {
	names, err := fs.Names()
	if err != nil {
		return err
	}
	taken := map[string]bool{}
	for _, n := range names {
		taken[n] = true
	}
	stem := strings.TrimSuffix(name, dataExt)
	to := stem + dataExt + ".zst"
	for n := 1; taken[to]; n++ {
		to = fmt.Sprintf("%s-%d%s.zst", stem, n, dataExt)
	}
	return write(fs, to, func(w io.Writer) error {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		_, err = io.Copy(z, content)
		return errors.Join(err, z.Close())
	})
}
