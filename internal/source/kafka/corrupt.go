package kafka

import (
	"context"
	"encoding/binary"
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
func (f *fetcher) unreadable() *lane {
	for _, l := range f.lanes {
		if l.damage != nil {
			return l
		}
	}
	return nil
}

// damaged returns the error for a lane whose next batch cannot be read.
func (f *fetcher) damaged(ctx context.Context, l *lane) error {
	var next int64
	why := l.damage
	var doubt error
	if large := (*kgo.ErrDecompressTooLarge)(nil); errors.As(why, &large) {
		most, limit := maxBatch(&f.cfg.common)
		next, why = large.NextOffset, fmt.Errorf("it decompresses to more than %d MiB (%s)", most>>20, limit)
	} else {
		next, doubt = f.offsetAfterBatch(ctx, l)
	}
	err := fmt.Errorf("%s: the batch at offset %d cannot be read: %w", l.name, l.at.Offset, why)
	switch {
	case doubt != nil:
		return fmt.Errorf("%w; the offset of the next one is unknown: %w", err, doubt)
	case next < 0:
		return fmt.Errorf("%w; its header is damaged, too, so the offset of the next one is unknown: --start %s/%d=OFFSET begins at an offset", err, l.topic, l.number)
	}
	return fmt.Errorf("%w; --start %s/%d=%d begins behind it, without these records", err, l.topic, l.number, next)
}

// offsetAfterBatch finds the offset after a lane's next batch, which cannot be read. It returns -1 if the header is
// damaged, too.
func (f *fetcher) offsetAfterBatch(ctx context.Context, l *lane) (next int64, err error) {
	var answer *kmsg.FetchResponseTopicPartition
	err = f.brokers.retry(ctx, func() (err error) {
		answer, err = f.brokers.fetch(ctx, l, l.at.Offset, f.catalog.fetchBytes())
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

// A header is the header of a record batch.
type header struct {
	size        int   // the batch's, in bytes
	first, last int64 // offsets
	records     int32
}

// headerSize is the size in format 2, which all brokers since 0.11 write.
const headerSize = 61 // bytes

// readHeader reads the first header in batches. ok is false if there is no valid one.
func readHeader(batches []byte) (h header, ok bool) {
	if len(batches) < headerSize || batches[16] != 2 {
		return h, false
	}
	number := func(at int) int32 { return int32(binary.BigEndian.Uint32(batches[at:])) }
	h.first = int64(binary.BigEndian.Uint64(batches))
	h.size, h.last, h.records = 12+int(number(8)), h.first+int64(number(23)), number(57)
	return h, h.size >= headerSize && h.first >= 0
}
