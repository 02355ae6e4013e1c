package metrics

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const lastSuccess = "weir_last_success_timestamp_seconds"

// WriteFile writes the metrics of an ended run for node_exporter's textfile collector. It replaces the file atomically.
// If the run failed, the new file keeps the time of the job's last success from the old one.
func (r *Registry) WriteFile(path string, exitCode int, succeeded bool) error {
	now := seconds(time.Now())
	success := now
	if !succeeded {
		success = r.successIn(path)
	}
	r.gauge("weir_exit_code", "Exit code of the last run.", func() float64 { return float64(exitCode) })
	r.gauge("weir_run_end_timestamp_seconds", "When the last run ended.", func() float64 { return now })
	r.gauge(lastSuccess, "When a run last succeeded, with exit code 0 or 3; 0 for never.", func() float64 { return success })
	return fileError(path, prometheus.WriteToTextfile(path, r.run))
}

// successIn returns the time of the job's last success in a file, or 0.
func (r *Registry) successIn(path string) float64 {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	series := fmt.Sprintf(`%s{%s="%s"} `, lastSuccess, jobLabel, escape.Replace(r.job))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), series); ok {
			s, _ := strconv.ParseFloat(value, 64)
			return s
		}
	}
	return 0
}

// escape escapes a label's value for the text format.
var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// CheckFile returns an error if WriteFile could not write a file.
func CheckFile(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)) // as WriteFile does
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	return fileError(path, err)
}

// fileError names path in an error instead of the temporary file.
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
