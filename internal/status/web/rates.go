package web

import (
	"sync"
	"time"

	"github.com/weirsync/weir/internal/status"
)

// rates remembers recent samples of the counts. Rates are differences to an earlier sample.
type rates struct {
	mu      sync.Mutex
	samples []sample // oldest first, at least a second apart
}

// A sample has the counts of a run at one time.
type sample struct {
	at      time.Time
	lines   int64
	bytes   int64
	rows    []int64 // by table
	sources map[string]read
}

// table returns the rows of a table, or 0 if it was added later.
func (s *sample) table(i int) int64 {
	if i >= len(s.rows) {
		return 0
	}
	return s.rows[i]
}

// read tells how far a source was read.
type read struct{ lines, bytes, offset int64 }

const (
	sampleEvery = time.Second
	// ratesOver is the period that rates cover, if there is a sample from then.
	ratesOver = 10 * time.Second
)

func sampleOf(s *status.Snapshot, now time.Time) sample {
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

// since returns the sample at the beginning of the period that rates cover: the start of the run if there is no other.
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
