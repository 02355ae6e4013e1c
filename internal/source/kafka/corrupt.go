package kafka

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// A batch may become as large as a batchShare-th of the buffer when it is decompressed, and at least
	// some of the longest messages.
	batchShare = 2
	batchLines = 4
	// maxDoubts is how often a batch that cannot be read is fetched again before it counts as damaged.
	maxDoubts = 3
)

// maxBatch is how large a batch may become when it is decompressed, in bytes, and what says so.
func (s *Source) maxBatch() (most int, limit string) {
	of, limit := s.opts.Buffer/batchShare, "half of --buffer"
	if lines := batchLines * int64(s.opts.MaxLine); lines > of {
		of, limit = lines, "four times --max-line"
	}
	if of > math.MaxInt32 {
		of, limit = math.MaxInt32, "the largest that is read"
	}
	return int(of), limit
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
	var next int64
	var doubt error
	if large := (*kgo.ErrDecompressTooLarge)(nil); errors.As(why, &large) {
		most, limit := s.maxBatch()
		next, why = large.NextOffset, fmt.Errorf("it decompresses to more than %d MiB (%s)", most>>20, limit)
	} else {
		next, doubt = s.behind(ctx, l)
	}
	err := fmt.Errorf("%s: the batch at offset %d cannot be read: %w", l.name, l.at.Offset, why)
	switch {
	case doubt != nil:
		return fmt.Errorf("%w; where the next one begins is not known: %w", err, doubt)
	case next < 0:
		return fmt.Errorf("%w; its header is damaged, too, so that nothing says where the next one begins: --start %s/%d=OFFSET begins at an offset", err, l.topic, l.number)
	}
	return fmt.Errorf("%w; --start %s/%d=%d begins behind it, without these records", err, l.topic, l.number, next)
}

// behind finds the offset behind a lane's next batch, which cannot be read; it is -1 if the header is damaged, too.
func (s *Source) behind(ctx context.Context, l *lane) (next int64, err error) {
	var answer *kmsg.FetchResponseTopicPartition
	err = s.brokers.patiently(ctx, func() (err error) {
		if answer, err = s.fetch(ctx, l, l.at.Offset, s.fetchBytes()); errors.Is(err, errGone) {
			return fatalError{err}
		}
		return err
	})
	if err != nil {
		return -1, err
	}
	h, ok := readHeader(answer.RecordBatches)
	if !ok || h.last < l.at.Offset || h.last >= answer.HighWatermark {
		return -1, nil
	}
	after, more := readHeader(answer.RecordBatches[min(h.size, len(answer.RecordBatches)):])
	room := h.last - h.first + 1 // compaction leaves fewer records
	if more && h.last >= after.first || h.records < 1 || int64(h.records) > room || int64(h.records) < room && !more && !l.compacted {
		return -1, nil
	}
	return h.last + 1, nil
}
