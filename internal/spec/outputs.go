package spec

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/realpath"
)

// outputs returns an error if rejected lines or metrics would go into a file that is
// something else. args are the sources as they were named, sources what they resolve to.
func (r *rulebook) outputs(args, sources []string, rejects job.Rejects) error {
	metrics := r.Output.MetricsFile
	judge := func(name, path string, others ...string) {
		if path == "" {
			return
		}
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			r.fault(name, "--"+name+" %s: is not a regular file", path)
			return
		}
		if what := r.usedAs(path, args, sources); what != "" {
			r.fault(name, "--"+name+" %s: is %s; name another file", path, what)
			return
		}
		for _, other := range others {
			r.faultIf(other != "" && sameFile(path, other), name, "--"+name+" %s: is also the file of --metrics-file; name another file", path)
		}
	}
	judge("rejects", rejects.Path(), metrics)
	judge("metrics-file", metrics)
	if len(r.faults) == 0 {
		if err := rejects.Check(); err != nil {
			r.fault("rejects", "--rejects: %v", err)
		}
	}
	return ordered(r.faults)
}

// usedAs describes what else the run uses a path for; "" if nothing.
func (r *rulebook) usedAs(path string, args, sources []string) string {
	for _, s := range sources {
		if r.kinds.Traits(s).Stored() && sameFile(path, s) {
			return "the source " + s
		}
	}
	if stdin, ok := r.env.Stdin.(*os.File); ok && len(sources) == 1 && !r.kinds.Traits(sources[0]).Named {
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
	if r.to.Dest != "" {
		for _, file := range r.to.Files(r.to.Dest) {
			if sameFile(path, file) {
				return "a file of the database " + r.to.Dest
			}
		}
	}
	init, isFile := strings.CutPrefix(r.Feed.Init, "@")
	if !isFile {
		init = ""
	}
	for _, f := range [][2]string{{"config", r.File}, {"init", init}, {"tls-ca", r.Feed.TLSCA}, {"tls-cert", r.Feed.TLSCert}, {"tls-key", r.Feed.TLSKey}} {
		if f[1] != "" && sameFile(path, f[1]) {
			return "the file of --" + f[0]
		}
	}
	for _, f := range [][2]string{{"spool", r.Spool.Folder}, {"capture", r.Spool.Capture}} {
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
