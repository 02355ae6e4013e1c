package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// StdinName is the name of stdin. Files are named by absolute path.
const StdinName = "stdin"

// A Kind is a kind of source, as the program sees it. The kind's package makes it from its own options. Fields that may
// be nil are nil for kinds without the feature.
type Kind struct {
	Usage   string   // the forms of its specs, for messages
	Schemes []string // spec prefixes before "://"; nil: specs without a scheme
	// Type returns a source's type, by its spec or its name. It does not include what depends on the system, such
	// as whether a file is a FIFO; see [Lane].
	Type func(spec string) Type
	// Parse returns the specs that an argument stands for; see [One]. If there are none, the error is a
	// [NotFoundError], unless follow is set and the file may appear later.
	Parse func(arg string, follow bool) (specs []string, err error)
	// Name returns the name under which a spec's checkpoint is stored; nil: the spec itself.
	Name func(spec string) (string, error)
	// Suggests returns a table name for a source, or ""; nil: always "".
	Suggests func(spec string) string
	// Settings are the kind's options that affect how lines become messages, by flag. A checkpoint records them.
	Settings map[string]string
	// Finished reports, without opening the source, that there is nothing to read after a cursor; nil: unknown.
	Finished func(name string, o Options, from Cursor) bool
	// Open opens sources by name, or the single spec of a [Partition] source. A Live source is opened alone.
	Open func(ctx context.Context, names []string, o Options) (Source, error)
}

// One returns a Parse for kinds whose arguments are specs. check validates a spec.
func One(check func(spec string) error) func(arg string, follow bool) ([]string, error) {
	return func(arg string, _ bool) ([]string, error) { return []string{arg}, check(arg) }
}

// NameOf returns the name under which a spec's checkpoint is stored.
func (k *Kind) NameOf(spec string) (string, error) {
	if k.Name == nil {
		return spec, nil
	}
	return k.Name(spec)
}

// NotFoundError reports that a source does not exist.
type NotFoundError struct {
	Spec string
	What string // what is missing
}

func (e *NotFoundError) Error() string { return e.Spec + ": " + e.What }

// ExitCode is the exit code for wrong usage.
func (e *NotFoundError) ExitCode() int { return 2 }

// Kinds are all kinds of sources. Specs without a scheme belong to the first.
type Kinds []Kind

// Of returns a source's kind, by its spec or its name.
func (all Kinds) Of(spec string) *Kind {
	scheme, _, has := strings.Cut(spec, "://")
	if i := slices.IndexFunc(all, func(k Kind) bool { return slices.Contains(k.Schemes, scheme) }); has && i >= 0 {
		return &all[i]
	}
	return &all[0]
}

// Type returns a source's type, by its spec or its name.
func (all Kinds) Type(spec string) Type { return all.Of(spec).Type(spec) }

// Expand resolves the SOURCE arguments of a command line to specs, in order and without duplicates. No argument means
// stdin.
func (all Kinds) Expand(args []string, follow bool) ([]string, error) {
	if len(args) == 0 {
		args = []string{"-"}
	}
	var specs []string
	seen := make(map[string]bool)
	for _, arg := range args {
		kind := all.Of(arg)
		found, err := kind.Parse(arg, follow)
		if errors.As(err, new(*NotFoundError)) && strings.Contains(arg, "://") {
			return nil, all.unknown(arg)
		} else if err != nil {
			return nil, err
		}
		for _, spec := range found {
			name, err := kind.NameOf(spec)
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

// unknown returns the error for a spec of no known kind.
func (all Kinds) unknown(spec string) error {
	usages := make([]string, len(all))
	for i := range all {
		usages[i] = all[i].Usage
	}
	return fmt.Errorf("%s: unknown kind of source; the kinds are %s", spec, strings.Join(usages, ", "))
}
