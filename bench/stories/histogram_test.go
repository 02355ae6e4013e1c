package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestHistogram_IsExactTo1In250 compares quantiles with those of all times.
func TestHistogram_IsExactTo1In250(t *testing.T) {
	for range 20 {
		var h, other histogram
		var all []time.Duration
		scale := math.Exp(rand.Float64() * math.Log(1e12))
		for range 1 + rand.IntN(5000) {
			took := time.Duration(rand.ExpFloat64() * scale)
			all = append(all, took)
			if rand.IntN(2) == 0 {
				h.add(took)
			} else {
				other.add(took)
			}
		}
		h.merge(&other)
		slices.Sort(all)
		if h.n != int64(len(all)) || h.longest != all[len(all)-1] {
			t.Errorf("%d times up to %v are %d up to %v", len(all), all[len(all)-1], h.n, h.longest)
		}
		for _, part := range []float64{0, 0.5, 0.99} {
			want, got := all[int(part*float64(len(all)))], h.quantile(part)
			if math.Abs(float64(got-want)) > float64(want)/250 {
				t.Errorf("of %d times %v are below %v, the histogram says %v", len(all), part, want, got)
			}
		}
	}
	var h histogram
	h.add(math.MaxInt64)
	if got := h.quantile(0.5); got < math.MaxInt64/250*249 {
		t.Error(got)
	}
}
