// Package web serves what a run shows of itself over HTTP: a page for people, the same as JSON, and
// metrics. It only reads.
package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
)

// A Site is what is served of a run.
type Site struct {
	Job     string
	To      string // the database, without a password
	Version string

	Progress    *progress.Progress
	Metrics     http.Handler
	BufferLimit int64 // bytes
	SpoolLimit  int64 // bytes; 0 where there is no spool

	// RejectsAt is the command that prints all rejected lines of the job, or the flag that has them go
	// elsewhere.
	RejectsAt string
	// Records reports whether the offsets of a source count records; nil: those of none do.
	Records func(source string) bool
	// Unmet returns, for people, the fields that options name and no message has had; nil: none.
	Unmet func() []string
	// LastRejects returns the n lines that were rejected last, the last one first; nil where the
	// database does not keep them. It is called by one goroutine at a time.
	LastRejects func(ctx context.Context, n int) ([]sink.Kept, error)

	rates     rates
	history   history
	rejecting sync.Mutex // held while LastRejects is called
}

// A Listener is the port of a site.
type Listener struct {
	net.Listener
	host string // as it was named
}

// Listen opens the port, so that a bad address is an error at once. An address without a host is
// one of the loopback interface.
func Listen(addr string) (*Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("the metrics address: %w", err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("the metrics port: %w", err)
	}
	return &Listener{l, host}, nil
}

// local reports whether only this machine can connect.
func (l *Listener) local() bool {
	addr, ok := l.Addr().(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// names reports whether a request's Host is a name of the port: an address, localhost, or the name
// that it was bound by. Any other may be one that a web page of elsewhere has had resolve to this
// machine, to read it (DNS rebinding); an address needs no resolving.
func (l *Listener) names(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || strings.EqualFold(host, l.host)
}

// Handler answers for all paths of the site.
func (s *Site) Handler(l *Listener) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := s.notReady(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	// For people's browsers, which know the site by a name.
	for pattern, serve := range map[string]http.HandlerFunc{"GET /{$}": s.servePage, "GET /api/status": s.serveStatus, "GET /rejects": s.serveRejects(l.local())} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !l.names(r.Host) {
				http.Error(w, fmt.Sprintf("%q is not a name of this page: open it by an address, such as http://%s/, or bind the name, as in --metrics-addr NAME:PORT", r.Host, l.Addr()), http.StatusForbidden)
				return
			}
			serve(w, r)
		})
	}
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, name) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		guard(w.Header())
		mux.ServeHTTP(w, r)
	})
}

// guard has browsers load nothing from elsewhere, run no script but the site's own, and keep other
// sites from showing or reading any of it.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func (s *Site) notReady() string {
	did := s.Progress.Snapshot()
	return did.NotReady()
}

// Serve serves the site until ctx ends.
func (s *Site) Serve(ctx context.Context, l *Listener) error {
	server := &http.Server{Handler: s.Handler(l), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	go s.sampleUntil(ctx)
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
