package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weirsync/weir/internal/source"
)

const (
	// A batch may become as large as a batchShare-th of the buffer when it is decompressed, and at least
	// some of the longest messages.
	batchShare = 2
	batchLines = 4
	// maxDoubts is how often in a row a batch may fail to be read that can be read when it is looked at.
	maxDoubts = 10
)

// maxBatch is how large a batch may become when it is decompressed.
func (s *Source) maxBatch() int {
	return int(min(max(s.opts.Kafka.Buffer/batchShare, batchLines*int64(s.opts.MaxLine)), math.MaxInt32))
}

// A badBatch is one whose records cannot be read. They have these offsets.
type badBatch struct {
	first, last int64
	why         string
}

// isUnreadable reports whether a fetch may have brought what is no batch, or no batch any more.
func isUnreadable(err error) bool {
	return !errors.As(err, new(*kerr.Error)) && !errors.As(err, new(*kgo.ErrDataLoss)) && !errors.As(err, new(*kgo.ErrGroupSession))
}

// unreadable returns a lane whose next batch could not be read, nil where there is none.
func (s *Source) unreadable() *lane {
	for _, l := range s.lanes {
		if l.unreadable != nil && s.reading[l.partition] == l {
			return l
		}
	}
	return nil
}

// pass has a lane read on behind a batch that cannot be read, which becomes a reject. some is false where
// the batch can be read after all.
func (s *Source) pass(ctx context.Context, l *lane) (e source.Event, some bool, err error) {
	why := l.unreadable
	l.unreadable = nil
	bad, err := s.inspect(ctx, l, why)
	if err != nil {
		return e, false, err
	}
	if bad == nil {
		if l.doubted != l.at.Offset {
			l.doubted, l.doubts = l.at.Offset, 0
		}
		if l.doubts++; l.doubts > maxDoubts {
			return e, false, s.failure(ctx, l, why)
		}
		s.opts.Log.Warn(fmt.Sprintf("%s at offset %d: %v; fetching it again", l.name, l.at.Offset, why))
		s.seek(l)
		return e, false, nil
	}
	b := s.opts.Pool.Block()
	l.at.Offset = bad.last + 1
	b.Data, b.Next, b.Detail = append(b.Buf[:0], '\n'), l.at.Offset, bad.why
	b.Records = []source.Record{{Offset: bad.first, End: 1, Kind: source.Unreadable}}
	at := l.at
	b.AtOffset(func(offset int64) source.Cursor {
		at.Offset = offset
		return at.text()
	})
	if l.until >= 0 && l.at.Offset >= l.until {
		s.end(l)
	} else {
		s.seek(l)
	}
	return source.Event{Lane: l.name, Block: b}, true, nil
}

// seek has the client fetch a lane from its offset on.
func (s *Source) seek(l *lane) {
	s.consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{l.topic: {l.number: {Epoch: l.at.Epoch, Offset: l.at.Offset}}})
}

// inspect fetches the batch at a lane's offset again. It returns nil where that can be read: what was
// wrong then came on the way.
func (s *Source) inspect(ctx context.Context, l *lane, why error) (*badBatch, error) {
	var large *kgo.ErrDecompressTooLarge
	if errors.As(why, &large) { // its checksum is right
		bad := &badBatch{first: max(l.at.Offset, large.Offset), last: large.NextOffset - 1}
		bad.why = fmt.Sprintf("the batch of offsets %d to %d decompresses to more than %d MiB (--buffer allows a half of it)", bad.first, bad.last, s.maxBatch()>>20)
		return bad, nil
	}
	answer, err := s.fetchAgain(ctx, l, s.fetchBytes())
	if err != nil {
		return nil, err
	}
	readable, fault := s.faultOf(l, answer)
	if readable {
		return nil, nil
	}
	if h, ok := readHeader(answer.RecordBatches); ok && h.size <= len(answer.RecordBatches) && h.size+headerSize > len(answer.RecordBatches) {
		// It came alone: only the header of the next one can contradict its offsets.
		if answer, err = s.fetchAgain(ctx, l, int32(min(int64(h.size)+int64(s.fetchBytes()), math.MaxInt32))); err != nil {
			return nil, err
		}
		if readable, fault = s.faultOf(l, answer); readable {
			return nil, nil
		}
	}
	bad, ok := extent(answer, l.at.Offset)
	if !ok {
		return nil, fmt.Errorf("reading %s at offset %d: %w; the header of the batch is damaged, too, so that nothing says at which offset the next one begins", l.name, l.at.Offset, why)
	}
	bad.why = fmt.Sprintf("the batch of offsets %d to %d is corrupt: %v", bad.first, bad.last, cmp.Or(fault, why))
	return &bad, nil
}

// fetchAgain fetches the batches at a lane's offset, as often as it takes.
func (s *Source) fetchAgain(ctx context.Context, l *lane, most int32) (answer *kmsg.FetchResponseTopicPartition, err error) {
	err = s.brokers.patiently(ctx, func() (err error) {
		answer, err = s.fetch(ctx, l, l.at.Offset, most)
		if errors.Is(err, errGone) {
			return fatalError{err}
		}
		return err
	})
	if errors.Is(err, errGone) {
		err = s.failure(ctx, l, kerr.OffsetOutOfRange)
	}
	return answer, err
}

// faultOf reports whether the first batch of an answer can be read at a lane's offset, and why not, where that
// is known.
func (s *Source) faultOf(l *lane, answer *kmsg.FetchResponseTopicPartition) (readable bool, fault error) {
	p, end := s.decode(l.partition, l.at.Offset, answer)
	return p.Err == nil && end > l.at.Offset || len(answer.RecordBatches) == 0, p.Err
}

// extent returns the offsets of the first batch of an answer, from one on. ok is false where its header is
// damaged, too: good records would be passed over.
func extent(answer *kmsg.FetchResponseTopicPartition, offset int64) (bad badBatch, ok bool) {
	h, ok := readHeader(answer.RecordBatches)
	if !ok || h.size > len(answer.RecordBatches) || h.last < offset || h.last >= answer.HighWatermark || h.records < 1 || int64(h.records) > h.last-h.first+1 {
		return bad, false
	}
	if len(answer.RecordBatches) > h.size {
		if next, ok := readHeader(answer.RecordBatches[h.size:]); ok && next.first <= h.last {
			return bad, false
		}
	}
	return badBatch{first: max(offset, h.first), last: h.last}, true
}
