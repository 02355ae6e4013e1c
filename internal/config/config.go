// Package config merges settings from flags, the environment and a file: a flag
// beats a variable, a variable beats the file, the file beats the default.
package config

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A Setting is one flag, seen from here.
type Setting struct {
	Name  string // as on the command line: batch-period
	Value func() string
	Set   func(string) error
	// Origin tells where the value came from; a setting that has one is not
	// set again.
	Origin string
}

// Env is the name of a setting's variable.
func Env(name string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Key is the name of a setting in the file.
func Key(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Resolve gives the settings that the command line left open their values. All
// faults are reported at once. file is a path, "" for none.
func Resolve(settings []*Setting, lookup func(string) (string, bool), file string) error {
	var faults []error
	for _, s := range settings {
		if v, ok := lookup(Env(s.Name)); ok && s.Origin == "" {
			if err := s.Set(v); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", Env(s.Name), err))
			}
			s.Origin = "environment " + Env(s.Name)
		}
	}
	values, err := read(file)
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	for _, s := range settings {
		v, ok := values[Key(s.Name)]
		delete(values, Key(s.Name))
		switch {
		case ok && s.Origin == "":
			if err := s.Set(v); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", file, Key(s.Name), err))
			}
			s.Origin = "file " + file
		case s.Origin == "":
			s.Origin = "default"
		}
	}
	for _, key := range slices.Sorted(keys(values)) {
		faults = append(faults, fmt.Errorf("%s: there is no setting %q", file, key))
	}
	return errors.Join(faults...)
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// read returns the settings of a file as text; lists are joined with commas.
func read(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the config file: %w", err)
	}
	nodes := map[string]yaml.Node{}
	if err := yaml.Unmarshal(data, &nodes); err != nil {
		return nil, fmt.Errorf("the config file %s: %w", file, err)
	}
	values := map[string]string{}
	for key, n := range nodes {
		switch {
		case n.ShortTag() == "!!null": // as if it were not there
		case n.Kind == yaml.ScalarNode:
			values[key] = n.Value
		case n.Kind == yaml.SequenceNode:
			parts := make([]string, len(n.Content))
			for i, c := range n.Content {
				parts[i] = c.Value
			}
			values[key] = strings.Join(parts, ",")
		default:
			return nil, fmt.Errorf("the config file %s: %s is neither a value nor a list", file, key)
		}
	}
	return values, nil
}

// Size is a number of bytes as people write it: 256MiB, 1.5GB, 4096.
type Size int64

var units = []struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}}

// Set reads a size.
func (s *Size) Set(text string) error {
	number, unit := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || f*unit > math.MaxInt64/2 || f != f {
		return fmt.Errorf("%q is no size; write 64MiB, 1GB or a number of bytes", text)
	}
	*s = Size(f * unit)
	return nil
}

func (s Size) String() string {
	for _, u := range []int{2, 1, 0} {
		if b := Size(units[u].bytes); s >= b && s%b == 0 {
			return strconv.FormatInt(int64(s/b), 10) + units[u].name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Type names the kind of value in the help.
func (s *Size) Type() string { return "size" }
