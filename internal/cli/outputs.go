package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/realpath"
)

// checkOutputs returns an error if rejected lines or metrics would go into a file that is
// something else. args are the sources as they were named, sources what they resolve to.
func (e *env) checkOutputs(o *syncOptions, to destination, args, sources []string, rejects job.Rejects) error {
	var faults []error
	check := func(flag, path string, others ...string) {
		if path == "" {
			return
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			faults = append(faults, fmt.Errorf("%s %s: is not a regular file", flag, path))
			return
		}
		if what := e.usedAs(path, o, to, args, sources); what != "" {
			faults = append(faults, fmt.Errorf("%s %s: is %s; name another file", flag, path, what))
			return
		}
		for _, other := range others {
			if other != "" && sameFile(path, other) {
				faults = append(faults, fmt.Errorf("%s %s: is also the file of --metrics-file; name another file", flag, path))
			}
		}
	}
	check("--rejects", rejects.Path(), o.metricsFile)
	check("--metrics-file", o.metricsFile)
	if len(faults) == 0 {
		if err := rejects.Check(); err != nil {
			faults = append(faults, fmt.Errorf("--rejects: %w", err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return usageError{err}
	}
	return nil
}

// usedAs says what else of a run a path is, or "".
func (e *env) usedAs(path string, o *syncOptions, to destination, args, sources []string) string {
	for _, s := range sources {
		if sourceKinds.Traits(s).Stored() && sameFile(path, s) {
			return "the source " + s
		}
	}
	if stdin, ok := e.stdin.(*os.File); ok && len(sources) == 1 && !sourceKinds.Traits(sources[0]).Named {
		file, err := os.Stat(path)
		if in, err2 := stdin.Stat(); err == nil && err2 == nil && os.SameFile(in, file) {
			return "what stdin reads"
		}
	}
	for _, pattern := range args { // a glob: the next run would read it
		pattern, err := filepath.Abs(pattern)
		name, err2 := filepath.Abs(path)
		if match, err3 := filepath.Match(pattern, name); errors.Join(err, err2, err3) == nil && match {
			return "matched by the source " + pattern
		}
	}
	for _, file := range to.Files(to.dest) {
		if sameFile(path, file) {
			return "a file of the database " + to.dest
		}
	}
	init, isFile := strings.CutPrefix(o.init, "@")
	if !isFile {
		init = ""
	}
	for _, f := range [][2]string{{"config", o.config}, {"init", init}, {"tls-ca", o.tlsCA}, {"tls-cert", o.tlsCert}, {"tls-key", o.tlsKey}} {
		if f[1] != "" && sameFile(path, f[1]) {
			return "the file of --" + f[0]
		}
	}
	for _, f := range [][2]string{{"spool", o.spool}, {"capture", o.capture}} {
		if f[1] == "" {
			continue
		}
		if inside, err := filepath.Rel(realpath.Of(f[1]), realpath.Of(path)); err == nil && filepath.IsLocal(inside) {
			return "in the folder of --" + f[0]
		}
	}
	return ""
}

// sameFile reports whether two paths are one file, or would be.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	if err == nil && err2 == nil {
		return os.SameFile(x, y)
	}
	return realpath.Of(a) == realpath.Of(b)
}
