package kafka

import (
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
	// A batch may decompress to at most 1/batchShare of the buffer, but always to a few of the longest messages.
	batchShare = 2
	batchLines = 4
)

// maxBatch returns how large a batch may be after decompression, in bytes, and the setting that limits it.
func maxBatch(o *source.Options) (most int, limit string) {
	of, limit := o.Buffer/batchShare, "half of --buffer"
	if lines := batchLines * int64(o.MaxLine); lines > of {
		of, limit = lines, "four times --max-line"
	}
	if of > math.MaxInt32 {
		of, limit = math.MaxInt32, "the largest that is read"
	}
	return int(of), limit
}

// isUnreadable reports whether an error suggests that a fetch returned a damaged batch.
func isUnreadable(err error) bool {
	return !errors.As(err, new(*kerr.Error)) && !errors.As(err, new(*kgo.ErrDataLoss)) && !errors.As(err, new(*kgo.ErrGroupSession))
}

// unreadable returns a lane whose next batch could not be read, or nil.
func (s *Source) unreadable() *lane {
	for _, l := range s.reading {
		if l.damage != nil {
			return l
		}
	}
	return nil
}

func (s *Source) damaged(ctx context.Context, l *lane) error {
	var next int64
	why := l.damage
	if large := (*kgo.ErrDecompressTooLarge)(nil); errors.As(why, &large) {
		most, limit := maxBatch(&s.cfg.common)
		next, why = large.NextOffset, fmt.Errorf("it decompresses to more than %d MiB (%s)", most>>20, limit)
	} else if err := s.retry(ctx, func() (err error) {
		next, err = s.offsetAfter(ctx, l)
		return err
	}); err != nil {
		return err
	}
	err := fmt.Errorf("%s: the batch at offset %d cannot be read: %w", l.name, l.at.Offset, why)
	if next < 0 {
		return fmt.Errorf("%w; its header is damaged, too, so the offset of the next one is unknown: --start %s=OFFSET begins at an offset", err, l.key())
	}
	return fmt.Errorf("%w; --start %s=%d begins behind it, without these records", err, l.key(), next)
}

// offsetAfter returns the offset after a lane's next batch, as its header says; -1 if the header is damaged.
func (b *brokers) offsetAfter(ctx context.Context, l *lane) (next int64, err error) {
	answer, err := b.batchAt(ctx, l, l.at.Offset)
	if err != nil {
		return -1, err
	}
	var batch, after kmsg.RecordBatch
	if batch.ReadFrom(answer.RecordBatches) != nil {
		return -1, nil
	}
	next = batch.FirstOffset + int64(batch.LastOffsetDelta) + 1
	follows := after.ReadFrom(answer.RecordBatches[12+batch.Length:]) == nil // 12: the offset and the length
	switch {
	case next <= l.at.Offset || next > answer.HighWatermark:
	case follows && next > after.FirstOffset:
	case batch.NumRecords <= batch.LastOffsetDelta && !l.compacted: // compaction leaves fewer records
	default:
		return next, nil
	}
	return -1, nil
}
