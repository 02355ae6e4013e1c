// Package metrics exports a run's progress to Prometheus: over HTTP during the run, and in a file at its end.
package metrics

import (
	"net/http"
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirsync/weir/internal/status"
)

// A Registry holds the metrics of a run.
type Registry struct {
	job     string
	run     *prometheus.Registry
	process *prometheus.Registry // of Go and the process; not in the file
}

// jobLabel is the label of all metrics of a run. Prometheus sets a label "job" itself.
const jobLabel = "weir_job"

// New registers the metrics of a run. It observes the progress.
func New(p *status.Progress) *Registry {
	reg, process := prometheus.NewRegistry(), prometheus.NewRegistry()
	process.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	run := p.Snapshot().Run
	labels := prometheus.Labels{jobLabel: label(run.Job)}
	reg.MustRegister(&collector{p, labels})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_build_info", Help: "1, labeled with the build.",
		ConstLabels: prometheus.Labels{"version": run.Version, "commit": run.Commit, "goversion": runtime.Version()}}, func() float64 { return 1 }))
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_flush_duration_seconds", Help: "How long flushes took.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 16), NativeHistogramBucketFactor: 1.1})
	rows := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "weir_batch_rows", Help: "Rows of a batch.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(1, 4, 11), NativeHistogramBucketFactor: 1.1})
	reg.MustRegister(took, rows)
	p.Observe(func(f *status.Flush) {
		took.Observe(f.Seconds)
		rows.Observe(float64(f.BatchRows))
	})
	return &Registry{job: label(run.Job), run: reg, process: process}
}

// label returns the label value for a name. File names may not be UTF-8.
func label(name string) string { return strings.ToValidUTF8(name, "�") }

// gauge registers a gauge of the run.
func (r *Registry) gauge(name, help string, read func() float64) {
	r.run.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{jobLabel: r.job}}, read))
}

// Database registers a gauge about the database.
func (r *Registry) Database(name, help string, read func() int64) {
	r.gauge(name, help, func() float64 { return float64(read()) })
}

// Handler serves the metrics.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{r.run, r.process}, promhttp.HandlerOpts{EnableOpenMetrics: true})
}
