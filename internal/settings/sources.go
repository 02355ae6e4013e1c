package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/source"
)

// findSources resolves the sources of a run. It returns the name of its table, or of its job if the file has tables.
func (b *builder) findSources(args []string) (sources []string, table string, err error) {
	follow := b.Source.Follow
	sources, err = b.expand(args, follow)
	missing := errors.As(err, new(*fs.PathError)) || errors.As(err, new(*source.NotFoundError))
	if b.env.FileOnly && missing { // the files are on another machine, or come later
		sources, err = args, nil
	}
	if err != nil {
		return nil, "", err
	}
	switch table = b.Table.Name; {
	case b.Mapping != nil: // the job is named after the file
		table = strings.TrimSuffix(filepath.Base(b.File), filepath.Ext(b.File))
	case table == "":
		table, err = b.suggested(sources)
		switch {
		case err != nil && b.EveryTable(): // only the job has this name
			table, err = b.Fold.Envelope, nil
		case err != nil && b.env.FileOnly: // a flag or a variable may name it
			table, err = "t", nil
		}
	}
	live := slices.ContainsFunc(sources, func(s string) bool { return Sources.Type(s).Live() })
	b.faultIf(follow && slices.ContainsFunc(sources, func(s string) bool { return Sources.Type(s) != source.File }),
		"follow", "--follow is for files alone, which it reads at the same time; other sources are always followed")
	if live && len(sources) > 1 {
		err = errors.Join(err, Usage(b.sourceFault("a connection must be the only source")))
	}
	return sources, table, err
}

// Expand resolves the sources on the command line.
func (s *Spec) Expand(args []string) ([]string, error) {
	s.args = args
	return s.expand(args, false)
}

// expand resolves sources of the command line or file. Faults are usage errors, except errors of the file system.
func (s *Spec) expand(args []string, follow bool) ([]string, error) {
	for _, a := range args {
		if _, rest, ok := strings.Cut(a, "://"); ok && strings.Contains(rest, "@") {
			instead := "--init sends what the feed asks for"
			if IsKafka([]string{a}) {
				instead = "--sasl reads KAFKA_USERNAME and KAFKA_PASSWORD"
			}
			return nil, Usage(s.sourceFault("%s: a source has no user and no password; "+instead, Redacted(a)))
		}
	}
	sources, err := Sources.Expand(args, follow)
	if err == nil || errors.As(err, new(*fs.PathError)) || errors.As(err, new(*source.NotFoundError)) {
		return sources, err
	}
	return nil, Usage(s.sourceFault("%v", err))
}

// sourceFault returns an error about the sources, which are arguments or a setting.
func (s *Spec) sourceFault(format string, args ...any) error {
	if len(s.args) > 0 {
		return fmt.Errorf(format, args...)
	}
	return s.fault("source", format, args...)
}

// suggested returns the table name that the sources suggest.
func (s *Spec) suggested(sources []string) (string, error) {
	name := ""
	for _, src := range sources {
		n := ""
		if suggests := Sources.Of(src).Suggests; suggests != nil {
			n = suggests(src)
		}
		if n == "" {
			if src == "-" {
				src = source.StdinName
			}
			return "", Usage(s.sourceFault("%s suggests no name for the table: --table NAME", src))
		}
		if name != "" && n != name {
			return "", Usage(s.sourceFault("the sources suggest the tables %q and %q: --table NAME", name, n))
		}
		name = n
	}
	return name, nil
}
