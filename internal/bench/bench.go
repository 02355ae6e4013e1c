// Package bench makes feeds for tests and benchmarks: the shipped flight feed,
// and feeds whose shape is chosen to be fast or slow to fold. A feed is the same
// for the same seed, on every machine.
package bench

import (
	"bufio"
	"io"
	"math/rand/v2"
	"strconv"
)

// Hot writes n messages on ids rows, each of about 340 bytes, which name every
// second of 38 text columns.
func Hot(w io.Writer, n, ids int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	return columns(w, n, r, func(int) int { return r.IntN(ids) })
}

// Distinct is Hot with a row of its own for each message.
func Distinct(w io.Writer, n int, seed uint64) error {
	return columns(w, n, rand.New(rand.NewPCG(seed, 1)), func(i int) int { return i })
}

func columns(w io.Writer, n int, r *rand.Rand, id func(int) int) error {
	const width = 37 // beside the id
	out := bufio.NewWriterSize(w, 1<<16)
	var b []byte
	for i := range n {
		b = append(b[:0], `{"id":"FLT`...)
		b = strconv.AppendInt(b, int64(100_000_000+id(i)), 10)
		b = append(b, `-17636"`...)
		for c := r.IntN(2); c < width; c += 2 {
			b = append(b, `,"col`...)
			b = strconv.AppendInt(b, int64(10+c), 10)
			b = append(b, `":"v`...)
			b = strconv.AppendInt(b, r.Int64N(100_000), 10)
			b = append(b, '"')
		}
		b = append(b, '}', '\n')
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return out.Flush()
}
