package job

import (
	"bytes"
	"cmp"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// spooled returns a source, or the queue around it that keeps its lines on disk where one is
// wanted.
func (o *opener) spooled(src source.Source) source.Source {
	if o.Spool.Dir == "" && o.Spool.Capture == "" || len(o.starts) == 0 {
		return src
	}
	s := &o.starts[0] // the only one
	o.spool = spool.NewQueue(src, spool.Config{
		Folders: o.Spool, Period: cmp.Or(o.BatchPeriod, livePeriod), Pool: o.pool,
		Job: o.Job, Source: s.name, Seq: s.cp.Seq,
		FromStart: o.FromStart && !o.hasBegun(s), Repeats: o.Feed.resumes(s.traits), LastResume: o.lastResume(),
		Log: o.Log.With("source", s.name), Gauge: o.p.SetSpool, Paused: func(why spool.Pause) { o.p.Pause(pauses[why]) },
	})
	return o.spool
}

var pauses = map[spool.Pause]progress.Cause{spool.Full: progress.SpoolFull, spool.DiskFull: progress.SpoolDiskFull, spool.CaptureDiskFull: progress.CaptureDiskFull}

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
