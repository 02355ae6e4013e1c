// Package config merges settings from flags, the environment and a file: a flag
// beats a variable, a variable beats the file, the file beats the default.
package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold"
)

// A Setting is one flag, seen from here.
type Setting struct {
	Name  string // as on the command line: batch-period
	About string // what it is, in a line
	Kind  string // of the value, as pflag names it: bool, int, a|b
	Value func() string
	Set   func(string) error
	// SetList sets a setting that takes several values; nil if it takes one.
	SetList func([]string) error
	// Origin says where the value came from; a setting that has one is not set again.
	Origin string
	// Once tells that the setting is an action of one run, which only the command line starts: a file that had it
	// would do it at each restart.
	Once bool
	// Why says why the default is what it is on this machine; nil: it is the same on all.
	Why func() string
}

// Default is the origin of a value that nothing has set.
const Default = "default"

var errOnce = errors.New("is an action of one run: give it on the command line")

const envPrefix = "WEIR_"

// Env is the name of a setting's variable.
func Env(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// Key is the name of a setting in the file.
func Key(name string) string { return strings.ReplaceAll(name, "-", "_") }

// Resolve sets the settings that the command line left open, and returns what the file says
// beside settings. All faults are reported at once. environ is as [os.Environ] returns it;
// file is a path, "" for none; databases are the kinds that it may name, and defaults the rules of a
// fold that the settings give.
func Resolve(settings []*Setting, environ []string, file string, databases []string, defaults func() fold.Options) (f File, err error) {
	var faults []error
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || kubernetes.MatchString(name) {
			continue
		}
		s, err := find(settings, Env, name)
		switch {
		case err != nil:
			faults = append(faults, err)
		case s.Once:
			faults = append(faults, fmt.Errorf("%s %w", name, errOnce))
		case s.Origin == "":
			if err := s.Set(value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", name, err))
			}
			s.Origin = "environment " + name
		}
	}
	if file != "" {
		f, err = read(file, settings, databases, defaults)
		faults = append(faults, err)
	}
	for _, s := range settings {
		if s.Origin == "" {
			s.Origin = Default
		}
	}
	return f, errors.Join(faults...)
}

// kubernetes names the variables that a cluster gives to each container for a service
// whose name begins with "weir".
var kubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)$`)

// find returns the setting with a name, as spell writes it. The error suggests the one that a
// mistyped name is likely to mean.
func find(settings []*Setting, spell func(string) string, name string) (*Setting, error) {
	names := settingNames(settings, spell)
	if i := slices.Index(names, name); i >= 0 {
		return settings[i], nil
	}
	return nil, fmt.Errorf("unknown setting %q%s", name, DidYouMean(name, names))
}

func settingNames(settings []*Setting, spell func(string) string) []string {
	names := make([]string, len(settings))
	for i, s := range settings {
		names[i] = spell(s.Name)
	}
	return names
}

// DidYouMean is what an error adds about a mistyped name: the one of names that is likely to
// be meant, or "".
func DidYouMean(name string, names []string) string {
	nearest, meant := 3, ""
	for _, n := range names {
		d := distance(name, n)
		if d < nearest && 2*d <= len(strings.TrimPrefix(strings.TrimPrefix(n, "--"), envPrefix)) {
			nearest, meant = d, fmt.Sprintf("; did you mean %q?", n)
		}
	}
	return meant
}

// distance is the number of letters to add, remove, change or swap with the next, to turn a
// into b.
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, row := rows[0], rows[1], rows[2]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
