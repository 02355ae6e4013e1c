// Package bench makes feeds for tests and benchmarks: the shipped flight feed, and feeds that are fast or slow to
// fold by design. The same seed makes the same feed on every machine.
package bench

import (
	"bufio"
	"io"
	"math/rand/v2"
	"strconv"
)

// Hot writes n messages on ids rows, each of about 340 bytes, which set every second of 38 text columns.
func Hot(w io.Writer, n, ids int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	return columns(w, n, r, func(int) int { return r.IntN(ids) })
}

// shapes are the types of the messages of Shapes, each with the first column that it sets and the distance to the
// next.
var shapes = [...]struct {
	name        string
	first, step int
}{{"schedule", 0, 2}, {"plan", 1, 2}, {"departure", 0, 3}, {"arrival", 1, 3}, {"position", 2, 4}, {"gate", 3, 5}}

// Shapes is Hot with a type column. Its six values determine which 7 to 19 columns follow, so the order of names
// depends on the message's type.
func Shapes(w io.Writer, n, ids int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 3))
	return messages(w, n, func(b []byte, _ int) []byte {
		b = appendID(b, r.IntN(ids))
		shape := &shapes[r.IntN(len(shapes))]
		b = append(append(append(b, `,"type":"`...), shape.name...), '"')
		return appendColumns(b, shape.first, shape.step, r)
	})
}

// Distinct is Hot with a separate row for each message.
func Distinct(w io.Writer, n int, seed uint64) error {
	return columns(w, n, rand.New(rand.NewPCG(seed, 1)), func(i int) int { return i })
}

// Narrow writes n messages of three columns on up to ids rows.
func Narrow(w io.Writer, n, ids int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 4))
	return messages(w, n, func(b []byte, i int) []byte {
		b = strconv.AppendInt(append(b, `{"id":`...), int64(r.IntN(ids)), 10)
		b = strconv.AppendInt(append(b, `,"seen":`...), int64(i), 10)
		return append(strconv.AppendInt(append(b, `,"state":"s`...), r.Int64N(1000), 10), '"')
	})
}

func columns(w io.Writer, n int, r *rand.Rand, id func(int) int) error {
	return messages(w, n, func(b []byte, i int) []byte {
		b = appendID(b, id(i))
		return appendColumns(b, r.IntN(2), 2, r)
	})
}

// messages writes n objects; members appends an object without its last brace.
func messages(w io.Writer, n int, members func(b []byte, i int) []byte) error {
	out := bufio.NewWriterSize(w, 1<<16)
	var b []byte
	for i := range n {
		b = append(members(b[:0], i), '}', '\n')
		if _, err := out.Write(b); err != nil {
			return err
		}
	}
	return out.Flush()
}

// appendID appends the start of a message.
func appendID(b []byte, id int) []byte {
	b = append(b, `{"id":"FLT`...)
	b = strconv.AppendInt(b, int64(100_000_000+id), 10)
	return append(b, `-17636"`...)
}

// appendColumns appends every step-th of 37 columns, starting with first.
func appendColumns(b []byte, first, step int, r *rand.Rand) []byte {
	const width = 37
	for c := first; c < width; c += step {
		b = append(b, `,"col`...)
		b = strconv.AppendInt(b, int64(10+c), 10)
		b = append(b, `":"v`...)
		b = strconv.AppendInt(b, r.Int64N(100_000), 10)
		b = append(b, '"')
	}
	return b
}
