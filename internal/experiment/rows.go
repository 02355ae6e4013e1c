package experiment

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
)

// writeMessages makes a message for each row, with some columns of 32 random characters.
func writeMessages(path string, rows iter.Seq[int], columns int, random *rand.Rand) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(f, 1<<16)
	for i := range rows {
		fmt.Fprintf(out, `{"id":%q`, rowKey(i))
		for c := range columns {
			fmt.Fprintf(out, `,"c%d":"%016x%016x"`, c, random.Uint64(), random.Uint64())
		}
		fmt.Fprintln(out, "}")
	}
	return errors.Join(out.Flush(), f.Close())
}

// rowKey is the key of a row. Keys grow, so that new rows come to the end of a table and of its index.
func rowKey(i int) string { return fmt.Sprintf("%012d", i) }
