package quantity_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestQuantity runs the cases in testdata/figures.txtar.
func TestQuantity(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/figures.txtar", func(t *testing.T, kind, given string) string {
		if kind == "duration" {
			d, err := time.ParseDuration(given)
			testcheck.NoError(t, err)
			return quantity.Duration(d)
		}
		number, unit, _ := strings.Cut(given, ", ")
		f, err := strconv.ParseFloat(number, 64)
		testcheck.NoError(t, err)
		switch kind {
		case "grouped":
			return quantity.Grouped(int64(f))
		case "count":
			return quantity.Count(int64(f), unit)
		case "bytes":
			return quantity.Bytes(int64(f))
		}
		return quantity.Figure(f)
	})
}
