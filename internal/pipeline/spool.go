package pipeline

import (
	"bytes"
	"cmp"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/spool"
)

// spooled returns a source that keeps the lines of the attempt's only source on disk, if that is wanted.
func (a *attempt) spooled(src source.Source, starts []start) source.Source {
	r, c := a.run, a.cfg
	if c.Spool.Dir == "" && c.Spool.Capture == "" || len(starts) == 0 {
		return src
	}
	s := &starts[0]
	return spool.Keep(src, spool.Config{
		Folders: c.Spool, Period: cmp.Or(c.BatchPeriod, livePeriod), Pool: r.pool,
		Job: c.Job, Source: s.name, Seq: s.cp.Seq,
		FromStart: c.Restart.FromStart && !a.check.hasBegun(s), Repeats: c.Feed.resumes(s.kind), LastResume: r.lastResume(),
		Log: c.Log.With("source", s.name), Gauge: r.p.SetSpool, Paused: r.p.Pause,
	})
}

// lastResume returns a function that finds the last resume value in lines, or ""; nil if no field has one. It is for one
// goroutine at a time.
func (r *run) lastResume() func(lines []byte) string {
	if r.cfg.Feed.ResumeField == "" {
		return nil
	}
	scan, field := feed.NewScanner(r.names), r.feedNames.resume
	return func(lines []byte) string {
		var l feed.Line
		for len(lines) > 0 {
			at := bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
			l.Scan(scan, nil, bytes.TrimSuffix(lines[at:], newline))
			last := ""
			for m := range l.Messages(scan) {
				if text, ok := resumeOf(m, field); ok && m.Err == nil {
					last = string(text)
				}
			}
			if last != "" {
				return last
			}
			lines = lines[:at]
		}
		return ""
	}
}
