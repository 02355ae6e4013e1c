package web

import (
	"sync"
	"time"

	"github.com/weirsync/weir/internal/progress"
)

// rates remembers counts of the last moments at which somebody asked or the history was sampled. Rates are of what
// happened since.
type rates struct {
	mu      sync.Mutex
	samples []sample // a second apart at least, the oldest first
}

// A sample has the counts of a run at a moment.
type sample struct {
	at      time.Time
	lines   int64
	bytes   int64
	rows    []int64 // by table
	sources map[string]read
}

// table is how many rows a table had; it may have been added since.
func (s *sample) table(i int) int64 {
	if i >= len(s.rows) {
		return 0
	}
	return s.rows[i]
}

// read is how far a source was read.
type read struct{ lines, bytes, offset int64 }

const (
	sampleEvery = time.Second
	// ratesOver is over how long rates are, if somebody has asked meanwhile.
	ratesOver = 10 * time.Second
)

func sampleOf(s *progress.Snapshot, now time.Time) sample {
	out := sample{at: now, lines: s.Lines, bytes: s.Bytes, sources: map[string]read{}}
	for i := range s.Tables {
		out.rows = append(out.rows, s.Tables[i].Total())
	}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		out.sources[l.Source] = read{l.Lines, l.Bytes, l.Offset}
	}
	return out
}

// since returns the sample that rates up to now begin at: the start of the run where there is no
// other.
func (r *rates) since(now sample, start time.Time) sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	begin := sample{at: start, rows: make([]int64, len(now.rows))}
	for _, s := range r.samples {
		if now.at.Sub(s.at) < sampleEvery {
			break
		}
		if begin = s; now.at.Sub(s.at) <= ratesOver {
			break
		}
	}
	n := len(r.samples)
	if n == 0 || now.at.Sub(r.samples[n-1].at) >= sampleEvery {
		r.samples = append(r.samples, now)
	}
	for len(r.samples) > int(ratesOver/sampleEvery)+1 {
		r.samples = r.samples[1:]
	}
	return begin
}
