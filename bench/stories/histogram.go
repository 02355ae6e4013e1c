package main

import (
	"math/bits"
	"time"
)

// A histogram counts times in buckets: its size does not grow with their number. A bucket is at most 1/128
// of its times wide, and what is said of one is its middle: a quantile is within 0.4 % of the exact one.
type histogram struct {
	n       int64
	longest time.Duration // exact
	counts  [(64 - bucketBits) << bucketBits]int64
}

// bucketBits is how many bits of a time are kept after its highest one bit, which need not be stored.
const bucketBits = 7

func (h *histogram) add(t time.Duration) {
	h.n++
	h.longest = max(h.longest, t)
	shift := max(bits.Len64(uint64(t))-bucketBits-1, 0)
	h.counts[shift<<bucketBits+int(t>>shift)]++
}

func (h *histogram) merge(other *histogram) {
	h.n += other.n
	h.longest = max(h.longest, other.longest)
	for i, n := range other.counts {
		h.counts[i] += n
	}
}

// quantile returns the time below which that part of all is.
func (h *histogram) quantile(part float64) time.Duration {
	behind := int64(part * float64(h.n))
	for i, n := range h.counts {
		if behind -= n; behind >= 0 {
			continue
		}
		shift := max(i>>bucketBits-1, 0)
		return min(time.Duration(i-shift<<bucketBits)<<shift+time.Duration(1)<<shift/2, h.longest)
	}
	return h.longest
}
