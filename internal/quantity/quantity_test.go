package quantity_test

import (
	"testing"
	"time"

	"github.com/weirsync/weir/internal/quantity"
)

func TestQuantity(t *testing.T) {
	f := func(have, want string) {
		t.Helper()
		if have != want {
			t.Errorf("%q, want %q", have, want)
		}
	}
	f(quantity.Grouped(999), "999")
	f(quantity.Grouped(-1000), "-1,000")
	f(quantity.Grouped(-999), "-999")
	f(quantity.Grouped(1234567), "1,234,567")
	f(quantity.Count(1, "batch"), "1 batch")
	f(quantity.Count(0, "batch"), "0 batches")
	f(quantity.Count(2000, "row"), "2,000 rows")
	f(quantity.Figure(0), "0")
	f(quantity.Figure(1416327), "1,420,000")
	f(quantity.Figure(999.6), "1,000")
	f(quantity.Figure(48.62), "48.6")
	f(quantity.Figure(21.04), "21")
	f(quantity.Figure(1), "1")
	f(quantity.Figure(0.30512), "0.305")
	f(quantity.Bytes(1), "1 byte")
	f(quantity.Bytes(1500), "1.5 kB")
	f(quantity.Bytes(999_949), "999.9 kB")
	f(quantity.Bytes(999_950), "1.0 MB")
	f(quantity.Bytes(999_950_000), "1.0 GB")
	f(quantity.Bytes(2_000_000), "2.0 MB")
	f(quantity.Bytes(3_210_000_000), "3.2 GB")
}

func TestDuration(t *testing.T) {
	for d, want := range map[string]string{"0": "0s", "12.6ms": "13ms", "1.23s": "1.2s", "2s": "2s", "12.345s": "12s", "3m10.4s": "3m10s", "3m": "3m",
		"32h33m43s": "1d9h", "5h": "5h", "5h20m31s": "5h21m", "48h": "2d",
		"999.7ms": "1s", "9.97s": "10s", "59.4s": "59s", "59.7s": "1m", "59m59.4s": "59m59s", "59m59.6s": "1h", "23h59m20s": "23h59m", "23h59m40s": "1d", "47h50m": "2d"} {
		is, err := time.ParseDuration(d)
		if got := quantity.Duration(is); got != want || err != nil {
			t.Errorf("%s: %s, want %s (%v)", d, got, want, err)
		}
	}
}
