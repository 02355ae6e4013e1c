// Package web serves a run's status over HTTP: a page, the same as JSON, and metrics. It only reads.
package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/status"
)

// A Site is what is served about a run.
type Site struct {
	Progress *status.Progress
	Metrics  http.Handler
}

// A Listener is the port of a site.
type Listener struct {
	net.Listener
	host string // as given
}

// Listen opens the port, so a bad address fails at once. An address without a host is on the loopback interface.
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

// names reports whether a request's Host header names this site: an IP address, localhost, or the host given to
// [Listen]. A page elsewhere may have made its own host name resolve to this machine to read the site (DNS rebinding).
// IP addresses are not resolved.
func (l *Listener) names(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost") || strings.EqualFold(host, l.host)
}

// Handler handles all paths of the site.
func (s *Site) Handler(l *Listener) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if did := s.Progress.Snapshot(); did.NotReady != "" {
			http.Error(w, did.NotReady, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	// Browsers load these, so the Host header is checked.
	for pattern, serve := range map[string]http.HandlerFunc{"GET /{$}": s.servePage, "GET /api/status": s.serveStatus} {
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

// guard tells browsers to load nothing from elsewhere, to run only the site's scripts, and to keep other sites from
// embedding or reading it.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

func (s *Site) serveStatus(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Progress.Snapshot()) // an error means that the client has left
}

// Serve serves the site until ctx ends.
func (s *Site) Serve(ctx context.Context, l *Listener) error {
	server := &http.Server{Handler: s.Handler(l), ReadHeaderTimeout: 5 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
