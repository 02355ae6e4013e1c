package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// StdinName is the name of stdin; the names of files are absolute.
const StdinName = "stdin"

// A Kind is one kind of source, as the program knows it. The package of the kind makes it, by the options that
// are the kind's alone. What may be nil is left out by kinds without it.
type Kind struct {
	Usage   string   // the forms of its specs, for people
	Schemes []string // what its specs have before "://"; nil: the kind has those without a scheme
	// Traits returns what a source is like, by its spec or its name. What only the system can tell of a file, as
	// that it is a FIFO, is not in them; see [Begun].
	Traits func(spec string) Traits
	// Parse returns the specs that an argument stands for; see [One]. An argument that stands for none is a
	// [NotFoundError], unless files that are missing yet are to be followed.
	Parse func(arg string, follow bool) (specs []string, err error)
	// Name returns what a checkpoint of a spec is kept under; nil: the spec.
	Name func(spec string) (string, error)
	// Suggests returns a name for the table that a source is for, "" if there is none; nil: there is none.
	Suggests func(spec string) string
	// Settings are those of the kind's options that say what lines become, by their flags: a checkpoint keeps them.
	Settings map[string]string
	// Finished reports that there is nothing to read of a source after a cursor, without opening it; nil: that is
	// not known.
	Finished func(name string, o Options, from Cursor) bool
	// Open opens sources, by their names, or the one spec of a source that is Divided. Of a source that is Live,
	// there is one.
	Open func(ctx context.Context, names []string, o Options) (Source, error)
}

// One is the Parse of a kind whose arguments are specs, each of which may be wrong.
func One(check func(spec string) error) func(arg string, follow bool) ([]string, error) {
	return func(arg string, _ bool) ([]string, error) { return []string{arg}, check(arg) }
}

// NameOf returns what a checkpoint of a spec is kept under.
func (k *Kind) NameOf(spec string) (string, error) {
	if k.Name == nil {
		return spec, nil
	}
	return k.Name(spec)
}

// NotFoundError is the error of a source that does not exist.
type NotFoundError struct {
	Spec string
	What string // that is missing
}

func (e *NotFoundError) Error() string { return e.Spec + ": " + e.What }

// ExitCode is that of a wrong usage.
func (e *NotFoundError) ExitCode() int { return 2 }

// Kinds are all kinds of sources. The first one has the specs without a scheme.
type Kinds []Kind

// Of returns the kind of a source, by its spec or its name.
func (all Kinds) Of(spec string) *Kind {
	scheme, _, has := strings.Cut(spec, "://")
	if i := slices.IndexFunc(all, func(k Kind) bool { return slices.Contains(k.Schemes, scheme) }); has && i >= 0 {
		return &all[i]
	}
	return &all[0]
}

// Traits returns what a source is like, by its spec or its name.
func (all Kinds) Traits(spec string) Traits { return all.Of(spec).Traits(spec) }

// Expand resolves the SOURCE arguments of a command line to specs of sources, in order and without doubles. No
// argument is stdin.
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

// unknown is the error of a spec of no kind.
func (all Kinds) unknown(spec string) error {
	usages := make([]string, len(all))
	for i := range all {
		usages[i] = all[i].Usage
	}
	return fmt.Errorf("%s: unknown kind of source; there are %s", spec, strings.Join(usages, ", "))
}
