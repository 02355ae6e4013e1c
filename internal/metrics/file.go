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

// WriteFile writes the metrics of a run that has ended for node_exporter's textfile collector; the
// file appears whole or not at all. A run that failed keeps from the file that it replaces when one
// of the job last succeeded.
func (r *Registry) WriteFile(path string, exitCode int, succeeded bool) error {
	now := seconds(time.Now())
	success := now
	if !succeeded {
		success = r.successIn(path)
	}
	r.gauge("weir_exit_code", "Exit code of the last run.", func() float64 { return float64(exitCode) })
	r.gauge("weir_run_end_timestamp_seconds", "When the last run ended.", func() float64 { return now })
	r.gauge(lastSuccess, "When a run last did all that it had to, with exit code 0 or 3; 0 for never.", func() float64 { return success })
	return fileError(path, prometheus.WriteToTextfile(path, r.run))
}

// successIn returns when a run of the job last succeeded, as an earlier file says; 0 where none
// does.
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

// escape writes a label's value as the text format does.
var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

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
