package job

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
)

// Progress counts what a run does. Everybody may read it at any time.
type Progress struct {
	Start time.Time

	Lines, Bytes atomic.Int64 // read and dealt with
	Messages     atomic.Int64 // written, by way of rows
	Coalesced    atomic.Int64 // of these, those that were folded into a row that another message had begun
	Buffer       atomic.Int64 // bytes that the filling batch holds
	Batches      atomic.Int64
	Inserted     atomic.Int64
	Updated      atomic.Int64
	Unchanged    atomic.Int64
	Deleted      atomic.Int64
	Reconnects   atomic.Int64 // of sources
	Spool        atomic.Int64 // bytes in the spool that are not committed
	FeedTime     atomic.Int64 // ns since 1970, of the last message that named one; 0 for none
	LastFlush    atomic.Int64 // ns that it took
	LastCommit   atomic.Int64 // ns since 1970, by this run or one before; 0 for none

	// OnFlush, where it is set, is called for each batch that was written.
	OnFlush func(rows int, took time.Duration)

	trouble  atomic.Pointer[sink.Error]
	rejected map[feed.Reason]*atomic.Int64
	retries  map[string]*atomic.Int64

	mu      sync.Mutex
	source  string
	begun   source.Begun // of that
	ignored map[string]int64
}

// NewProgress returns counters at zero.
func NewProgress() *Progress {
	p := &Progress{Start: time.Now(), rejected: map[feed.Reason]*atomic.Int64{}, retries: map[string]*atomic.Int64{}}
	for _, r := range feed.Reasons {
		p.rejected[r] = new(atomic.Int64)
	}
	for _, r := range sink.RetryReasons {
		p.retries[r] = new(atomic.Int64)
	}
	return p
}

// Rejected returns the counter of lines rejected for a reason.
func (p *Progress) Rejected(r feed.Reason) *atomic.Int64 { return p.rejected[r] }

// RejectedTotal returns the number of lines rejected.
func (p *Progress) RejectedTotal() (n int64) {
	for _, c := range p.rejected {
		n += c.Load()
	}
	return n
}

// Retry counts a call of the database that is tried again.
func (p *Progress) Retry(e *sink.Error) {
	if n := p.retries[e.Reason]; n != nil {
		n.Add(1)
	}
	p.trouble.Store(e)
}

// Trouble returns why the database is waited for, nil where it is not.
func (p *Progress) Trouble() *sink.Error { return p.trouble.Load() }

// Retries returns the counter of flushes tried again for a reason.
func (p *Progress) Retries(reason string) *atomic.Int64 { return p.retries[reason] }

// Lag returns how old the last message read is, by its own time; 0 where none named
// one.
func (p *Progress) Lag() time.Duration {
	if at := p.FeedTime.Load(); at != 0 {
		return max(0, time.Since(time.Unix(0, at))) // a feed's clock may be ahead
	}
	return 0
}

// Rows returns the number of rows written or found unchanged.
func (p *Progress) Rows() int64 {
	return p.Inserted.Load() + p.Updated.Load() + p.Unchanged.Load() + p.Deleted.Load()
}

// Source returns the name of the source at hand, and how many of its raw bytes
// were read; size is 0 where it is not known.
func (p *Progress) Source() (name string, read, size int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun.Size == nil {
		return p.source, 0, 0
	}
	return p.source, p.begun.RawOffset(), p.begun.Size()
}

// Ignored returns how many values each field had that found no column. It is
// complete when the run has ended.
func (p *Progress) Ignored() map[string]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ignored
}

func (p *Progress) setIgnored(m map[string]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ignored = m
}

func (p *Progress) begin(name string, b source.Begun) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.source, p.begun = name, b
}

func (p *Progress) flushed(b *fold.Batch, res sink.Result, took time.Duration) {
	p.Messages.Add(b.Messages)
	p.Coalesced.Add(b.Messages - int64(b.Rows()))
	p.Batches.Add(1)
	p.Inserted.Add(res.Inserted)
	p.Updated.Add(res.Updated)
	p.Unchanged.Add(res.Unchanged)
	p.Deleted.Add(res.Deleted)
	for i := range res.Refused {
		p.Rejected(res.Refused[i].Reason).Add(1)
	}
	p.LastFlush.Store(int64(took))
	p.trouble.Store(nil)
	p.LastCommit.Store(time.Now().UnixNano())
	if p.OnFlush != nil {
		p.OnFlush(b.Rows(), took)
	}
}
