package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// A batch may become as large as a batchShare-th of the buffer when it is decompressed, and at least
	// some of the longest messages.
	batchShare = 2
	batchLines = 4
	// maxDoubts is how often a batch that cannot be read is fetched again before it counts as damaged.
	maxDoubts = 3
)

// maxBatch is how large a batch may become when it is decompressed.
func (s *Source) maxBatch() int {
	return int(min(max(s.opts.Kafka.Buffer/batchShare, batchLines*int64(s.opts.MaxLine)), math.MaxInt32))
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

// fetchAgain has the client fetch a lane's next batch again, which could not be read: what was wrong may have come on
// the way. The error says where the batch is, and what begins behind it.
func (s *Source) fetchAgain(ctx context.Context, l *lane) error {
	why := l.unreadable
	l.unreadable = nil
	if l.doubted != l.at.Offset {
		l.doubted, l.doubts = l.at.Offset, 0
	}
	if l.doubts++; l.doubts > maxDoubts || errors.As(why, new(*kgo.ErrDecompressTooLarge)) {
		return s.damaged(ctx, l, why)
	}
	s.opts.Log.Warn(fmt.Sprintf("%s at offset %d: %v; fetching it again", l.name, l.at.Offset, why))
	s.consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{l.topic: {l.number: {Epoch: l.at.Epoch, Offset: l.at.Offset}}})
	return nil
}

// damaged is the error of a lane whose next batch cannot be read.
func (s *Source) damaged(ctx context.Context, l *lane, why error) error {
	next := int64(-1)
	if large := (*kgo.ErrDecompressTooLarge)(nil); errors.As(why, &large) {
		next, why = large.NextOffset, fmt.Errorf("it decompresses to more than %d MiB (--buffer allows a half of it)", s.maxBatch()>>20)
	} else if answer, err := s.fetch(ctx, l, l.at.Offset, s.fetchBytes()); err == nil {
		h, ok := readHeader(answer.RecordBatches)
		behind, more := readHeader(answer.RecordBatches[min(h.size, len(answer.RecordBatches)):])
		if ok && h.last >= l.at.Offset && h.last < answer.HighWatermark && (more && h.last < behind.first || int64(h.records) == h.last-h.first+1) {
			next = h.last + 1
		}
	}
	err := fmt.Errorf("%s: the batch at offset %d cannot be read: %w", l.name, l.at.Offset, why)
	if next < 0 {
		return fmt.Errorf("%w; its header is damaged, too, so that nothing says where the next one begins: --start %s/%d=OFFSET begins at an offset", err, l.topic, l.number)
	}
	return fmt.Errorf("%w; --start %s/%d=%d begins behind it, without these records", err, l.topic, l.number, next)
}
