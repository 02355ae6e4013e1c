package settings

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// GroupAnnotation is the annotation of a flag with its group.
const GroupAnnotation = "weir_group"

// from is where the value of a setting came from. A later constant overrides an earlier one.
type from int

const (
	byDefault     from = iota
	byDatabaseURL      // only for --to
	byFile
	byVariable
	byFlag
)

// A Setting is a setting of a run. It is declared once, and set by its flag, its variable WEIR_X or its key in the
// file.
type Setting struct {
	Value
	Name string // of the flag, such as batch-period
	// Why explains a default that depends on the machine, or is "".
	Why string

	group  string
	preset string // text of the default
	// elsewhere is the error if the file or the variable (except WEIR_CONFIG) sets it, such as "is an action of one
	// run: …". "": both may set it.
	elsewhere string

	from    from
	at      paths.Pos  // of the value in the file
	node    *yaml.Node // the value in the file
	written []string   // texts of its flag or variable
	faults  []error    // of its text; a [mapping.Fault] if the file sets it
}

const actionOfOneRun = "is an action of one run: give it on the command line"

// Set parses a flag. It always returns nil: [Spec.Plan] and [Spec.Validate] return the error with all others.
func (s *Setting) Set(text string) error {
	s.from, s.written = byFlag, append(s.written, text)
	s.parse(text)
	return nil
}

func (s *Setting) parse(text string) {
	if err := s.Value.Set(text); err != nil {
		s.faults = append(s.faults, unjoined(err)...)
	}
}

// readNode sets the setting to its value in a file.
func (s *Setting) readNode(file string, n *yaml.Node) {
	r := &reader{file: file}
	s.from, s.at, s.node, s.given = byFile, pos(n), n, true
	s.read(r, n, s.name, s.v)
	s.faults = r.faults
}

// shown returns a text without secrets: nothing of --init, which contains a login, and no password.
func (s *Setting) shown(text string) string {
	switch {
	case s.Name == "init" && text != "":
		return Hidden
	case s.Name == "to" || s.Name == "source":
		return Redacted(text)
	}
	return text
}

// IsSet reports whether the setting has a value that is not its default.
func (s *Setting) IsSet() bool { return s.from != byDefault }

// IsFlag reports whether the command line set it.
func (s *Setting) IsFlag() bool { return s.from == byFlag }

// InFile reports whether a config file may set it.
func (s *Setting) InFile() bool { return s.elsewhere == "" }

// variable returns the name of the setting's environment variable.
func (s *Setting) variable() string { return envPrefix + strings.ToUpper(s.name) }

// AddFlags defines the flags of the named settings; without names, of all.
func (s *Spec) AddFlags(f *pflag.FlagSet, names ...string) {
	for _, one := range s.settings {
		if one.tag.Get("flag") != "" || len(names) > 0 && !slices.Contains(names, one.Name) {
			continue
		}
		help := one.help
		if len(one.words) > 0 && one.Type() == "word" {
			help += ": " + strings.Join(one.words, ", ")
		}
		fl := f.VarPF(one, one.Name, one.tag.Get("short"), help)
		if one.Type() == "bool" {
			fl.NoOptDefVal = "true"
		}
		if one.Why != "" || fl.DefValue == "[]" {
			fl.DefValue = "" // it depends on the machine, or says nothing
		}
		if one.group != "" {
			fl.Annotations = map[string][]string{GroupAnnotation: {one.group}}
		}
	}
}

// AddFoldFlags defines the flags of commands that fold files: the update rules, and those that are named.
func (s *Spec) AddFoldFlags(f *pflag.FlagSet, names ...string) {
	for _, rule := range fieldsOf(reflect.TypeFor[Fold]()) {
		names = append(names, flagName(rule.name))
	}
	s.AddFlags(f, append(names, "max-line", "config")...)
}

// flagName returns the name of a key as a flag.
func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Settings returns all settings in the order of the help.
func (s *Spec) Settings() []*Setting { return s.settings }

// key returns the setting with a key of the file, or nil.
func (s *Spec) key(name string) *Setting {
	if i := slices.IndexFunc(s.settings, func(one *Setting) bool { return one.name == name && name != "tables" }); i >= 0 {
		return s.settings[i]
	}
	return nil
}

// Setting returns the setting with a name, or nil.
func (s *Spec) Setting(name string) *Setting {
	if i := slices.IndexFunc(s.settings, func(one *Setting) bool { return one.Name == name }); i >= 0 {
		return s.settings[i]
	}
	return nil
}

func (s *Spec) origin(one *Setting) string {
	switch one.from {
	case byFlag:
		return "flag --" + one.Name
	case byDatabaseURL, byVariable:
		return "environment " + one.called()
	case byFile:
		return "file " + s.File
	}
	if one.Why != "" {
		return "default: " + one.Why
	}
	return "default"
}

// mention matches a setting in the text of a fault, in the form of its flag.
var mention = regexp.MustCompile(`--([a-z][a-z-]*[a-z])`)

// called returns the name by which the setting was set.
func (s *Setting) called() string {
	switch s.from {
	case byDatabaseURL:
		return databaseURL
	case byVariable:
		return s.variable()
	case byFile:
		return s.name
	}
	return "--" + s.Name
}

// fault returns an error about one setting. The format names settings by flag; the error names each as the user set it:
// by flag, variable or key. A setting that nothing set is named in the style of the setting at fault.
func (s *Spec) fault(name, format string, args ...any) error {
	of := s.Setting(name)
	format = mention.ReplaceAllStringFunc(format, func(m string) string {
		other := s.Setting(strings.TrimPrefix(m, "--"))
		if other == nil || other.elsewhere != "" {
			return m
		}
		return (&Setting{Value: other.Value, Name: other.Name, from: cmp.Or(other.from, of.from)}).called()
	})
	text := fmt.Sprintf(format, args...)
	if of.from == byFile {
		return &mapping.Fault{File: s.File, Pos: of.at, Text: text}
	}
	return errors.New(text)
}

// textFaults returns an error for each value that does not parse.
func (s *Spec) textFaults() (faults []error) {
	for _, one := range s.settings {
		for _, err := range one.faults {
			if one.from != byFile {
				err = s.fault(one.Name, "%s: %v", one.called(), err)
			}
			faults = append(faults, err)
		}
	}
	return faults
}

// unjoined returns the parts of an error.
func unjoined(err error) (all []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, part := range joined.Unwrap() {
			all = append(all, unjoined(part)...)
		}
	} else if err != nil {
		all = append(all, err)
	}
	return all
}

// ordered joins errors. Errors with a position in the config file come last, by line and column.
func ordered(faults []error) error {
	all := unjoined(errors.Join(faults...))
	place := func(err error) paths.Pos {
		if f, ok := errors.AsType[*mapping.Fault](err); ok {
			return f.Pos
		}
		return paths.Pos{}
	}
	slices.SortStableFunc(all, func(a, b error) int {
		x, y := place(a), place(b)
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Column, y.Column))
	})
	return errors.Join(all...)
}
