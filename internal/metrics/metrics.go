// Package metrics shows a run's progress to Prometheus, while it lasts and in a file when it has
// ended.
package metrics

import (
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirsync/weir/internal/progress"
)

// Run is what the metrics of one run are labelled with and read from.
type Run struct {
	Job      string
	Progress *progress.Progress
	// BySource has what is counted by source labelled with it. Files that are read to their ends
	// are counted together.
	BySource    bool
	BufferLimit int64 // bytes
	SpoolLimit  int64 // bytes; 0 where there is no spool
	Version     string
	Commit      string
}

// A Registry holds the metrics of one run.
type Registry struct {
	job     string
	run     *prometheus.Registry
	process *prometheus.Registry // of Go and the process, which are no news when it has ended
	rejects prometheus.Gauge     // nil until the database has answered
}

// jobLabel is the label of all metrics of a run: Prometheus has a "job" of its own.
const jobLabel = "weir_job"

// New registers the metrics of a run, each at its present value. It observes the progress.
func New(r Run) *Registry {
	reg, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	job := label(r.Job)
	reg.MustRegister(newCollector(r, job))
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_build_info", Help: "1, labelled with what was built.",
		ConstLabels: prometheus.Labels{"version": r.Version, "commit": r.Commit, "goversion": runtime.Version()}}, func() float64 { return 1 }))

	labels := prometheus.Labels{jobLabel: job}
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_flush_duration_seconds", Help: "How long flushes took.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), NativeHistogramBucketFactor: 1.1})
	rows := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_batch_rows", Help: "Rows of a batch.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(1, 4, 11), NativeHistogramBucketFactor: 1.1})
	reg.MustRegister(took, rows)
	r.Progress.Observe(func(f progress.Flush) {
		took.Observe(f.Took.Seconds())
		rows.Observe(float64(f.Rows))
	})
	return &Registry{job: job, run: reg, process: process}
}

// label makes a label's value of a name: that of a file need not be UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "�") }

// gauge registers a gauge of the run.
func (r *Registry) gauge(name, help string, read func() float64) {
	r.run.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{jobLabel: r.job}}, read))
}

// Database registers a figure of the database.
func (r *Registry) Database(name, help string, read func() int64) {
	r.gauge(name, help, func() float64 { return float64(read()) })
}

// RejectsStored sets how many rejected lines of the job the database keeps. It must not be called at
// the same time by two goroutines.
func (r *Registry) RejectsStored(n int64) {
	if r.rejects == nil {
		r.rejects = prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_rejects_stored", Help: "Rejected lines of the job that the database keeps, of this run and those before.",
			ConstLabels: prometheus.Labels{jobLabel: r.job}})
		r.run.MustRegister(r.rejects)
	}
	r.rejects.Set(float64(n))
}

// Handler answers with the metrics.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{r.run, r.process}, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// seconds is a time as Prometheus has it, 0 for none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
