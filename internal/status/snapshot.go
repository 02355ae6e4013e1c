package status

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// A Time is encoded as JSON in UTC. In memory it is not in UTC, because it would then lack the monotonic clock, and a
// clock that is set would change what lasts how long.
type Time struct{ time.Time }

func now() Time { return Time{time.Now()} }

// Sub returns the duration since an earlier time.
func (t Time) Sub(earlier Time) time.Duration { return t.Time.Sub(earlier.Time) }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return t.UTC().MarshalJSON() }

// Snapshot returns the current state of the run.
func (p *Progress) Snapshot() Snapshot {
	p.mu.Lock()
	s := p.state
	s.Time = now()
	s.Pending = max(0, s.Lines-p.settled) // committed lines may be counted first
	s.Unassigned, s.Retries, s.Notes = maps.Clone(s.Unassigned), maps.Clone(s.Retries), s.Notes.clone()
	s.Reasons, s.Stops, s.Tables = slices.Clone(s.Reasons), slices.Clone(s.Stops), slices.Clone(p.tables)
	for i := range s.Tables {
		s.Tables[i].Rejected = maps.Clone(s.Tables[i].Rejected)
		s.add(&s.Tables[i].TableCounts)
	}
	if s.Writing != nil {
		s.Writing = new(*s.Writing)
	}
	s.Files = p.ofFiles()
	kafka, lanes := p.kafka, make([]Lane, len(p.lanes))
	for i, l := range p.lanes {
		lanes[i] = *l
	}
	s.Stalled = p.stalls(s.Time)
	begin := p.rateBegin(s.Time)
	p.mu.Unlock()

	s.Seconds = s.Time.Sub(s.Started).Seconds()
	s.Lanes = make([]Source, len(lanes))
	for i := range lanes { // they query the file system or take locks
		s.Lanes[i] = lanes[i].snapshot(&s.Files)
		if lag := s.Lanes[i].LagRecords; lag != nil {
			kafka.LagRecords += *lag
			if s.Lanes[i].Open {
				kafka.Partitions++
			}
		}
	}
	if kafka.GroupPartitions > 0 || kafka.Partitions > 0 {
		s.Kafka = &kafka
	}
	s.Files.SecondsLeft = secondsLeft(s.Seconds, s.Files.Offset-s.Files.Before, s.Files.Size-s.Files.Offset)
	slices.SortStableFunc(s.Reasons, func(a, b Reason) int { return cmp.Compare(b.Lines, a.Lines) })
	s.NotReady = s.notReady(kafka.WaitingForGroup)
	s.rate(&begin)
	return s
}

// secondsLeft returns how long the rest takes at the average rate so far; 0 if that is unknown.
func secondsLeft(seconds float64, done, left int64) float64 {
	if done <= 0 || left <= 0 {
		return 0
	}
	return seconds * float64(left) / float64(done)
}

func (s *Snapshot) notReady(waitsForGroup bool) string {
	switch {
	case len(s.Stalled) > 0:
		return s.Stalled[0].String()
	case waitsForGroup:
		return waitingForGroup
	case !s.begun:
		return "not reading yet"
	}
	for i := range s.Lanes {
		if l := &s.Lanes[i]; l.Open && l.Connections == 0 && (l.Kind == Dialed || l.Kind == Partition) {
			return "not connected to " + l.Source
		}
	}
	return ""
}

// LongFlush is the duration from which the progress of a flush is shown.
const LongFlush = time.Second

// LongWriting returns the current flush; nil if there is none, or it has just begun.
func (s *Snapshot) LongWriting() *Writing {
	if s.Writing == nil || s.Time.Sub(s.Writing.Began) < LongFlush {
		return nil
	}
	return s.Writing
}

// Unavailable returns the stall with the cause [DatabaseUnavailable], or the zero Stall.
func (s *Snapshot) Unavailable() Stall {
	if len(s.Stalled) > 0 && s.Stalled[0].Cause == DatabaseUnavailable {
		return s.Stalled[0]
	}
	return Stall{}
}

// Unmoved returns what makes no progress, and for how long: a flush that neither ends nor is retried, or, if there is
// no flush, the reader.
func (s *Snapshot) Unmoved() (what string, since time.Duration) {
	switch {
	case s.Writing != nil:
		return "a flush", s.Time.Sub(s.Writing.tried)
	case !s.step.IsZero():
		return "reading", s.Time.Sub(s.step)
	}
	return "", 0
}
