package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/fold"
)

const configHelp = "YAML `FILE` with settings and tables, such as batch_rows: 1000"

// oneShot are the flags that are actions of one run.
var oneShot = []string{"restart", "accept-settings", "dry-run", tablesFlag}

// settingsOf are the settings of sync, each a flag of f but for the sources.
func settingsOf(f *pflag.FlagSet, o *syncOptions) (settings []*config.Setting) {
	f.VisitAll(func(fl *pflag.Flag) {
		if fl.Name == "help" || fl.Name == helpAll {
			return
		}
		_, about := pflag.UnquoteUsage(fl)
		kind := fl.Value.Type()
		if v, isChoice := fl.Value.(interface{ words() []string }); isChoice {
			kind = strings.Join(v.words(), "|")
		}
		s := &config.Setting{Name: fl.Name, Once: slices.Contains(oneShot, fl.Name), About: about, Kind: kind, Value: func() string { return shown(fl.Name, fl.Value.String()) }, Set: func(v string) error { return setFlag(f, fl, v) }}
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			s.SetList = func(v []string) error {
				fl.Changed = true
				return list.Replace(v)
			}
		}
		if v, ok := fl.Value.(interface{ Why() string }); ok {
			s.Why = v.Why
		}
		if fl.Changed {
			s.Origin = "flag --" + fl.Name
		}
		settings = append(settings, s)
	})
	return append(settings, &config.Setting{Name: "source", About: "the sources, where the command line names none: a path, a URL, or a list",
		Value:   func() string { return redacted(strings.Join(o.source, ",")) },
		Set:     func(v string) error { o.source = splitSources(v); return nil },
		SetList: func(v []string) error { o.source = v; return nil }})
}

// splitSources returns the sources in a text, separated by commas. In topics of Kafka commas separate brokers
// and topics, so these are one source.
func splitSources(text string) []string {
	if isKafka([]string{text}) {
		return []string{text}
	}
	return strings.Split(text, ",")
}

// resolve gives the flags of sync that were not on the command line their values from the
// environment and the config file.
func (e *env) resolve(f *pflag.FlagSet, o *syncOptions) ([]*config.Setting, config.File, error) {
	if path, ok := e.lookupEnv(config.Env("config")); ok && o.config == "" {
		o.config = path
	}
	rules := func() fold.Options {
		f, _ := o.rules() // the command reports what is wrong with the settings
		return f
	}
	settings := settingsOf(f, o)
	file, err := config.Resolve(settings, e.environ(), o.config, kinds(), rules)
	if err != nil {
		return nil, file, usageError{err}
	}
	return settings, file, nil
}

// flagSet defines the flags of sync for a command that has others.
func (o *syncOptions) flagSet(c *cobra.Command) *pflag.FlagSet {
	f := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	o.flags(f)
	f.AddFlagSet(c.InheritedFlags())
	return f
}

// configured does the same for a command that has some of sync's flags, so that nobody repeats
// them. names are those that mean what they mean in sync; none: all.
func (e *env) configured(c *cobra.Command, names ...string) (config.File, error) {
	var o syncOptions
	all := o.flagSet(c)
	same := func(fl *pflag.Flag) bool {
		return fl.Name == "config" || len(names) == 0 || slices.Contains(names, fl.Name)
	}
	given := map[string]bool{}
	c.LocalFlags().VisitAll(func(fl *pflag.Flag) {
		if given[fl.Name] = fl.Changed; fl.Changed && same(fl) {
			copyFlag(all.Lookup(fl.Name), fl)
		}
	})
	_, file, err := e.resolve(all, &o)
	all.VisitAll(func(fl *pflag.Flag) {
		if fl.Changed && !given[fl.Name] && same(fl) {
			copyFlag(c.LocalFlags().Lookup(fl.Name), fl)
		}
	})
	return file, err
}

// copyFlag sets a flag, if there is one, to the value of another of its type.
func copyFlag(to, from *pflag.Flag) {
	if to == nil {
		return
	}
	if list, ok := from.Value.(pflag.SliceValue); ok {
		_ = to.Value.(pflag.SliceValue).Replace(list.GetSlice()) // the other has taken them
	} else {
		_ = to.Value.Set(from.Value.String())
	}
	to.Changed = true
}

// setFlag sets a flag from a variable or a file. There, yes is not a boolean, and a number
// that begins with 0 is ambiguous: octal to some, decimal to others.
func setFlag(f *pflag.FlagSet, fl *pflag.Flag, v string) error {
	if err := valueFault(fl, v, nil); err != nil {
		return err
	}
	err := f.Set(fl.Name, v)
	if inner := errors.Unwrap(err); inner != nil { // pflag's own message is about the command line
		err = inner
	}
	return valueFault(fl, v, err)
}

// valueFault is what is wrong with a flag's value, for people. cause is what the flag says of it.
func valueFault(fl *pflag.Flag, v string, cause error) error {
	switch fl.Value.Type() {
	case "bool":
		if _, err := strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
	case "int":
		if cause != nil {
			return fmt.Errorf("%q is not a whole number, such as 1000", v)
		}
	case "duration":
		if cause != nil {
			return fmt.Errorf("%q is not a duration, such as 500ms, 10s or 1h", v)
		}
	}
	return cause
}
