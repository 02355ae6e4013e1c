package settings

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirsync/weir/internal/realpath"
	"github.com/weirsync/weir/internal/source"
)

// outputs rejects a path for metrics that the run also uses for something else. args are the sources as named, sources
// what they resolve to.
func (b *builder) outputs(args, sources []string) {
	path := b.Output.MetricsFile
	if path == "" {
		return
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		b.fault("metrics-file", "--metrics-file %s: is not a regular file", path)
	} else if what := b.usedAs(path, args, sources); what != "" {
		b.fault("metrics-file", "--metrics-file %s: is %s; name another file", path, what)
	}
}

// usedAs describes what else the run uses a path for, or returns "".
func (b *builder) usedAs(path string, args, sources []string) string {
	for _, s := range sources {
		if b.kinds.Type(s) == source.File && sameFile(path, s) {
			return "the source " + s
		}
	}
	if stdin, ok := b.env.Stdin.(*os.File); ok && len(sources) == 1 && !b.kinds.Type(sources[0]).Named() {
		file, err := os.Stat(path)
		if in, err2 := stdin.Stat(); err == nil && err2 == nil && os.SameFile(in, file) {
			return "what stdin reads"
		}
	}
	for _, pattern := range args { // the next run would read it
		pattern, err := filepath.Abs(pattern)
		name, err2 := filepath.Abs(path)
		if match, err3 := filepath.Match(pattern, name); errors.Join(err, err2, err3) == nil && match {
			return "matched by the source " + pattern
		}
	}
	if b.plan.To.Dest != "" {
		for _, file := range b.plan.To.Files(b.plan.To.Dest) {
			if sameFile(path, file) {
				return "a file of the database " + b.plan.To.Dest
			}
		}
	}
	init, isFile := strings.CutPrefix(b.Feed.Init, "@")
	if !isFile {
		init = ""
	}
	for _, f := range [][2]string{{"config", b.File}, {"init", init}, {"tls-ca", b.Feed.TLSCA}, {"tls-cert", b.Feed.TLSCert}, {"tls-key", b.Feed.TLSKey}} {
		if f[1] != "" && sameFile(path, f[1]) {
			return "the file of --" + f[0]
		}
	}
	for _, f := range [][2]string{{"spool", b.Spool.Folder}, {"capture", b.Spool.Capture}} {
		if f[1] == "" {
			continue
		}
		if inside, err := filepath.Rel(realpath.Of(f[1]), realpath.Of(path)); err == nil && filepath.IsLocal(inside) {
			return "in the folder of --" + f[0]
		}
	}
	return ""
}

// sameFile reports whether two paths are the same file, or would be if they existed.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	if err == nil && err2 == nil {
		return os.SameFile(x, y)
	}
	return realpath.Of(a) == realpath.Of(b)
}
