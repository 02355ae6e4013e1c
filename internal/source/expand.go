package source

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// StdinName is the name of stdin; the names of files are absolute.
const StdinName = "stdin"

// NotFoundError is the error of a path that does not exist, or of a glob without a match.
type NotFoundError struct {
	Spec string
}

func (e *NotFoundError) Error() string {
	if isGlob(e.Spec) {
		return e.Spec + ": no file matches"
	}
	return e.Spec + ": no such file"
}

// ExitCode is that of a wrong usage.
func (e *NotFoundError) ExitCode() int { return 2 }

// Expand resolves the SOURCE arguments of a command line to specs of sources, in
// order and without doubles. No argument and "-" are stdin,
// connections (tcp://host:port, …) stay, a path that does not exist is taken as a glob. Matches are sorted, and
// directories among them passed over; a directory named outright is an error.
// The error is a *NotFoundError where nothing was found. A path that does not exist is kept with
// follow, for it is waited for.
func Expand(args []string, follow bool) ([]string, error) {
	if len(args) == 0 {
		args = []string{"-"}
	}
	var specs []string
	seen := make(map[string]bool)
	for _, arg := range args {
		found, err := expand(arg, follow)
		if err != nil {
			return nil, err
		}
		for _, spec := range found {
			name, err := Name(spec)
			if err != nil {
				return nil, err
			}
			if !seen[name] {
				seen[name] = true
				specs = append(specs, spec)
			}
		}
	}
	return specs, nil
}

func expand(arg string, follow bool) ([]string, error) {
	if isStdin(arg) {
		return []string{"-"}, nil
	}
	if isKafka(arg) {
		_, err := ParseKafka(arg)
		return []string{arg}, err
	}
	if isDialed(arg) || isListener(arg) {
		scheme, addr, _ := strings.Cut(arg, "://")
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" && isDialed(arg) || port == "" {
			return nil, fmt.Errorf("%s: not of the form %s://host:port", arg, scheme)
		}
		return []string{arg}, nil
	}
	info, err := os.Stat(arg)
	switch {
	case err == nil && info.IsDir():
		return nil, DirectoryError(arg)
	case err == nil:
		return []string{arg}, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case strings.Contains(arg, "://"):
		return nil, fmt.Errorf("%s: unknown kind of source; there are -, paths, tcp://, tls://, tcp-listen:// and tls-listen://host:port, kafka:// and kafka+tls://broker:9092/topic", arg)
	}
	if follow && !isGlob(arg) {
		return []string{arg}, nil
	}
	return glob(arg)
}

func glob(pattern string) ([]string, error) {
	matches, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	var files []string
	for _, path := range matches {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			files = append(files, path) // reading it returns the error
		}
	}
	if len(files) == 0 {
		return nil, &NotFoundError{pattern}
	}
	return files, nil
}

func isGlob(path string) bool { return strings.ContainsAny(path, "*?[") }

// isStdin also knows /dev/stdin: opened by that name, a redirected file would
// get a checkpoint that the next run's stdin is taken for.
func isStdin(spec string) bool { return spec == "-" || spec == "/dev/stdin" }

// Name returns what a checkpoint of spec is kept under.
func Name(spec string) (string, error) {
	switch {
	case isStdin(spec):
		return StdinName, nil
	case isDialed(spec), isListener(spec), isKafka(spec):
		return spec, nil
	}
	path, err := filepath.Abs(spec)
	if err != nil {
		return "", fmt.Errorf("absolute path of %s: %w", spec, err)
	}
	return path, nil
}

// DirectoryError returns the error of a path that is a directory.
func DirectoryError(path string) error {
	return fmt.Errorf("%s: is a directory; name its files: %s", path, filepath.Join(path, "*"))
}
