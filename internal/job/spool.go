package job

import (
	"bytes"
	"cmp"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/spool"
)

// openSpool opens the queue that keeps a source's lines on disk, nil where none is wanted.
func (r *run) openSpool(l *lane, job string) (*spool.Queue, error) {
	if r.Spool.Dir == "" && r.Spool.Capture == "" {
		return nil, nil
	}
	return spool.OpenQueue(l.stream, spool.Config{
		Folders: r.Spool, Period: cmp.Or(r.BatchPeriod, livePeriod), Pool: r.pool,
		Job: job, Source: l.name, Seq: l.cp.Seq, From: l.from.mark.Source, Resume: l.from.mark.Feed.Resume,
		FromStart: r.FromStart, Repeats: r.Feed.resumes(l.name), LastResume: r.lastResume(),
		Log: l.log, Gauge: r.p.Spool.Store,
	})
}

// lastResume returns a function that finds the last resume value among lines, "" where there is
// none. It is for one goroutine.
func (r *run) lastResume() func(lines []byte) string {
	if r.Feed.ResumeField == "" {
		return func([]byte) string { return "" }
	}
	scan, field := feed.NewScanner(&r.names), r.feedNames.resume
	return func(lines []byte) string {
		var l feed.Line
		for len(lines) > 0 {
			at := bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
			l.Scan(scan, nil, lines[at:len(lines)-1])
			if text, ok := resumeOf(&l, field); ok && l.Err == nil {
				return string(text)
			}
			lines = lines[:at]
		}
		return ""
	}
}
