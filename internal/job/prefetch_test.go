package job

import (
	"testing"
	"time"
)

// TestPrefetch_TurnsOnWhereFlushesAreSlow and off again where it does not help.
func TestPrefetch_TurnsOnWhereFlushesAreSlow(t *testing.T) {
	const slowRow = 100 * time.Microsecond
	a := &prefetch{mode: PrefetchAuto, slow: slowRow}
	flush := func(rows int, perRow time.Duration) { a.flushed(rows, time.Duration(rows)*perRow) }
	expect := func(on bool, when string) {
		t.Helper()
		if a.wanted() != on {
			t.Errorf("%s: the prefetch is %v", when, !on)
		}
	}
	flush(judgedRows, slowRow/2)
	expect(false, "a fast flush")
	flush(judgedRows-1, 2*slowRow)
	expect(false, "a slow flush of few rows")
	flush(judgedRows, 2*slowRow)
	expect(true, "a slow flush")
	for range 10 {
		flush(judgedRows, slowRow/2)
	}
	expect(true, "as it helps")
	for range judgeAfter - 10 {
		expect(true, "until it is judged")
		flush(judgedRows, slowRow/2)
	}
	flush(judgedRows, slowRow/2)
	expect(false, "when flushes are judged without it")
	flush(judgedRows, 2*slowRow)
	expect(true, "as they are slow")
	for range disableAfter {
		flush(judgedRows, 2*slowRow)
	}
	expect(false, "as it does not help")
	for range retryAfter {
		flush(judgedRows, 2*slowRow)
	}
	expect(false, "soon after")
	flush(judgedRows, 2*slowRow)
	expect(true, "when it is tried again")
	for range judgeAfter + 2 {
		flush(judgedRows, slowRow/2)
	}
	expect(false, "when flushes are fast without it")

	a.mode = PrefetchOff
	expect(false, "off")
}
