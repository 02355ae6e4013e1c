// Package example reads lines from HTTP servers. docs/dev/sources.md explains it step by step. It is used only in
// tests.
package example

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/lines"
)

// Options are the settings specific to HTTP.
type Options struct {
	Header http.Header // sent with each request
}

// Kind returns HTTP as a kind of source.
func Kind(o Options) source.Kind {
	return source.Kind{
		Usage:   "http://host/path",
		Schemes: []string{"http"},
		Type:    func(string) source.Type { return source.Remote },
		Parse:   source.One(check),
		Open: func(_ context.Context, names []string, common source.Options) (source.Source, error) {
			return source.Series(names, func(_ context.Context, name string, from source.Point) (source.Stream, error) {
				return begin(name, common, o, from.Cursor)
			}), nil
		},
	}
}

// check reports what is wrong with a spec.
func check(spec string) error {
	if u, err := url.Parse(spec); err != nil || u.Host == "" {
		return fmt.Errorf("%s: not of the form http://host/path", spec)
	}
	return nil
}

// A stream reads the response to one request.
type stream struct {
	*lines.Stream
	reader  lines.Reader
	request *http.Request
	from    source.Cursor
	skip    lines.Position // what to skip, from from
}

// begin starts reading a URL from a cursor.
func begin(name string, o source.Options, h Options, from source.Cursor) (source.Stream, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	s := &stream{from: from}
	if s.skip, err = lines.ReadCursor(from, name); err != nil {
		return nil, err
	}
	s.Stream = lines.NewStream(name, s.produce, func() bool { return true }) // the request ends with s.Ctx
	if s.request, err = http.NewRequestWithContext(s.Ctx, http.MethodGet, name, nil); err != nil {
		return nil, err
	}
	s.request.Header = h.Header
	s.reader.Init(s.Ctx, name, nil, &o)
	s.reader.Live, s.reader.Tail, s.reader.Rewinds = true, true, true
	return s, nil
}

// Lane implements [source.Stream].
func (s *stream) Lane() source.Lane { return source.Lane{At: s.from, Waits: true} }

// produce sends blocks until the lane ends.
func (s *stream) produce() error {
	answer, err := http.DefaultClient.Do(s.request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: the server answers %s", s.Name, answer.Status)
	}
	s.reader.Raw.R = answer.Body
	if err := s.reader.Begin(); err != nil {
		return s.reader.Failure(err)
	}
	if err := s.reader.Skip(s.skip); err != nil {
		return err
	}
	return s.reader.Each(func(b *source.Block) error { return s.Send(source.Event{Block: b}) })
}

// Close ends the request. It must not run together with Next.
func (s *stream) Close() error {
	s.End()
	s.reader.Forget()
	return nil
}
