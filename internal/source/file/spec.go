package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/source"
)

// Options are the settings specific to files and stdin. The zero value is ready to use.
type Options struct {
	Stdin io.Reader     // read for "-", never closed; nil: os.Stdin
	Poll  time.Duration // how often a followed file is polled; 0: 250 ms
	// RotateWait is how long a followed file that was replaced has to stay unchanged before the next one is read.
	RotateWait time.Duration
}

// DefaultRotateWait is the default of --rotate-wait.
const DefaultRotateWait = 5 * time.Second

func (o Options) withDefaults() Options {
	if o.Stdin == nil {
		o.Stdin = os.Stdin
	}
	o.Poll = cmp.Or(o.Poll, 250*time.Millisecond)
	return o
}

// Kind returns files and stdin as a kind of source.
func Kind(o Options) source.Kind {
	return source.Kind{
		Usage:    "-, paths",
		Type:     typeOf,
		Parse:    parse,
		Name:     nameOf,
		Suggests: suggests,
		Finished: Finished,
		Open: func(_ context.Context, names []string, common source.Options) (source.Source, error) {
			return New(names, common, o)
		},
	}
}

func typeOf(spec string) source.Type {
	if isStdin(spec) || spec == source.StdinName {
		return source.Stdin
	}
	return source.File
}

// parse returns the files that an argument names. A path that does not exist is treated as a glob. Matches are sorted;
// directories among them are skipped, but a directory named outright is an error. With follow, a path that does not
// exist is kept, because reading waits for it, and a glob comes after its matches, because more may appear.
func parse(arg string, follow bool) ([]string, error) {
	if isStdin(arg) {
		return []string{"-"}, nil
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return nil, directoryError(arg)
	case err == nil:
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case strings.Contains(arg, "://"):
		return nil, notFound(arg)
	case follow && !isGlob(arg):
		return []string{arg}, nil
	}
	files, err := glob(arg)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", arg, err)
	case follow:
		return append(files, arg), nil
	case len(files) == 0:
		return nil, notFound(arg)
	}
	return files, nil
}

// glob returns the files that match a pattern, by name.
func glob(pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, path := range matches {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = append(files, path) // reading it will return the error
		}
	}
	return files, nil
}

// isGlob reports whether a path that does not exist is a glob.
func isGlob(path string) bool { return strings.ContainsAny(path, "*?[") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// notFound returns the error for a path that does not exist, or a glob without a match.
func notFound(path string) error {
	if isGlob(path) {
		return &source.NotFoundError{Spec: path, What: "no file matches"}
	}
	return &source.NotFoundError{Spec: path, What: "no such file"}
}

// directoryError returns the error for a path that is a directory.
func directoryError(path string) error {
	return fmt.Errorf("%s: is a directory; name its files: %s", path, filepath.Join(path, "*"))
}

// isStdin includes /dev/stdin. Opened as a file, it would leave a checkpoint that the next run would apply to its own
// stdin.
func isStdin(spec string) bool { return spec == "-" || spec == "/dev/stdin" }

// nameOf returns the name of stdin, or an absolute path.
func nameOf(spec string) (string, error) {
	if isStdin(spec) {
		return source.StdinName, nil
	}
	path, err := filepath.Abs(spec)
	if err != nil {
		return "", fmt.Errorf("absolute path of %s: %w", spec, err)
	}
	return path, nil
}

// suggests returns a file's name without its format extensions.
func suggests(spec string) string {
	if isStdin(spec) || isGlob(spec) && !exists(spec) {
		return ""
	}
	name := filepath.Base(spec)
	for _, ext := range []string{".gz", ".zst", ".zstd", ".jsonl", ".ndjson", ".json", ".log"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}
