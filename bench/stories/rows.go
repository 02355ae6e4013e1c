package main

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
)

// writeMessages makes a message for each key, with some columns of 32 random characters.
func writeMessages(path string, keys iter.Seq[string], columns int, random *rand.Rand) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<16)
	for key := range keys {
		fmt.Fprintf(out, `{"id":%q`, key)
		for c := range columns {
			fmt.Fprintf(out, `,"c%d":"%016x%016x"`, c, random.Uint64(), random.Uint64())
		}
		fmt.Fprintln(out, "}")
	}
	return errors.Join(out.Flush(), f.Close())
}

// rowKey is the key of a row. Keys grow with it.
func rowKey(i int) string { return fmt.Sprintf("%012d", i) }
