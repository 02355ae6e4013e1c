// Package metrics shows a run's progress to Prometheus, over HTTP while it lasts
// and in a file when it has ended.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/sink"
)

// Run is what the metrics of one run are labelled with and read from.
type Run struct {
	Job, Table  string
	Progress    *job.Progress
	BufferLimit int64        // bytes
	WALBytes    func() int64 // of an SQLite file, in bytes; nil where there is none
	Version     string
	Commit      string
}

// A Registry holds the metrics of one run.
type Registry struct {
	run     *prometheus.Registry
	process *prometheus.Registry // of Go and the process, which are no news when it has ended
}

// New registers the metrics of a run, each at its present value. It sets the
// progress's OnFlush.
func New(r Run) *Registry {
	reg, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// The names of files need not be UTF-8; labels must be.
	job, table := strings.ToValidUTF8(r.Job, "�"), strings.ToValidUTF8(r.Table, "�")
	labels := prometheus.Labels{"job": job, "table": table}
	with := func(name, value string) prometheus.Labels {
		return prometheus.Labels{"job": job, "table": table, name: value}
	}
	counter := func(name, help string, l prometheus.Labels, read func() int64) {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: l},
			func() float64 { return float64(read()) }))
	}
	gauge := func(name, help string, read func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, read))
	}

	p := r.Progress
	counter("weir_read_lines_total", "Lines read.", labels, p.Lines.Load)
	counter("weir_read_bytes_total", "Bytes read, after decompression.", labels, p.Bytes.Load)
	for _, reason := range feed.Reasons {
		counter("weir_rejected_lines_total", "Lines rejected.", with("reason", string(reason)), p.Rejected(reason).Load)
	}
	for result, c := range map[string]func() int64{"inserted": p.Inserted.Load, "updated": p.Updated.Load,
		"unchanged": p.Unchanged.Load, "deleted": p.Deleted.Load} {
		counter("weir_rows_total", "Rows of flushed batches, by what became of them.", with("result", result), c)
	}
	for _, reason := range sink.RetryReasons {
		counter("weir_retries_total", "Database calls that were retried.", with("reason", reason), p.Retries(reason).Load)
	}
	counter("weir_reconnects_total", "Reconnects to a feed.", labels, p.Reconnects.Load)
	gauge("weir_spool_bytes", "Bytes of lines in the spool that are not committed.", func() float64 { return float64(p.Spool.Load()) })
	gauge("weir_source_lag_seconds", "How old the last message read is, by its --time-field; 0 where none has a time.", func() float64 { return p.Lag().Seconds() })
	counter("weir_coalesced_messages_total", "Messages folded into a row that another message of the batch had begun.", labels, p.Coalesced.Load)
	gauge("weir_buffer_bytes", "Memory that the filling batch holds.", func() float64 { return float64(p.Buffer.Load()) })
	gauge("weir_buffer_limit_bytes", "Memory for batches.", func() float64 { return float64(r.BufferLimit) })
	gauge("weir_last_commit_timestamp_seconds", "When the last batch was committed, by this run or one before; 0 for never.", func() float64 { return float64(p.LastCommit.Load()) / 1e9 })
	if r.WALBytes != nil {
		gauge("weir_sqlite_wal_bytes", "Size of the database's write-ahead log.", func() float64 { return float64(r.WALBytes()) })
	}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_build_info", Help: "1, labelled with what was built.",
		ConstLabels: prometheus.Labels{"version": r.Version, "commit": r.Commit, "goversion": runtime.Version()}}, func() float64 { return 1 }))

	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_flush_duration_seconds", Help: "How long flushes took.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), NativeHistogramBucketFactor: 1.1})
	rows := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_batch_rows", Help: "Rows of a batch.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(1, 4, 11), NativeHistogramBucketFactor: 1.1})
	reg.MustRegister(took, rows)
	p.OnFlush = func(n int, d time.Duration) {
		took.Observe(d.Seconds())
		rows.Observe(float64(n))
	}
	return &Registry{reg, process}
}

// WriteFile writes the metrics for node_exporter's textfile collector; the file
// appears whole or not at all.
func (r *Registry) WriteFile(path string) error {
	return fileError(path, prometheus.WriteToTextfile(path, r.run))
}

// CheckFile reports what would keep WriteFile from writing a file.
func CheckFile(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)) // as it does
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return fileError(path, err)
}

// fileError names the file, and not the one that is written in its place first.
func fileError(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	} else if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = e.Err
	}
	if err != nil {
		err = fmt.Errorf("writing the metrics file %s: %w", path, err)
	}
	return err
}

// Listen opens the port, so that a bad address is an error at once. An address
// without a host is one of the loopback interface.
func Listen(addr string) (net.Listener, error) {
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
	return l, nil
}

// Serve answers /metrics, /healthz and /readyz until ctx ends. ready says
// whether the run has begun to read.
func (r *Registry) Serve(ctx context.Context, l net.Listener, ready func() bool) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(prometheus.Gatherers{r.run, r.process}, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !ready() {
			http.Error(w, "not reading yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
