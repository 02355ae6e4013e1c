package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/config"
)

func (e *env) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show the settings and where they come from",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	o := &syncOptions{}
	print := &cobra.Command{
		Use:   "print",
		Short: "Print each setting of sync, its value and where it came from",
		Long: `Print each setting of sync, its value and where it came from: a flag beats a
variable (WEIR_BATCH_ROWS), a variable beats the config file, the file beats the
default.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, err := e.resolve(c.Flags(), o)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
			for _, s := range settings {
				fmt.Fprintf(t, "%s\t%s\t%s\n", s.Name, printable(s.Value()), s.Origin)
			}
			return t.Flush()
		},
	}
	o.flags(print.Flags())
	c.AddCommand(print)
	return c
}

// resolve gives the flags that were not on the command line their values from
// the environment and the config file.
func (e *env) resolve(f *pflag.FlagSet, o *syncOptions) ([]*config.Setting, error) {
	var settings []*config.Setting
	f.VisitAll(func(fl *pflag.Flag) {
		if fl.Name == "help" {
			return
		}
		s := &config.Setting{Name: fl.Name, Value: func() string { return shown(fl.Name, fl.Value.String()) }, Set: func(v string) error { return setFlag(f, fl, v) }}
		if list, ok := fl.Value.(pflag.SliceValue); ok {
			s.SetList = func(v []string) error {
				fl.Changed = true
				return list.Replace(v)
			}
		}
		if fl.Changed {
			s.Origin = "flag --" + fl.Name
		}
		settings = append(settings, s)
	})
	settings = append(settings, &config.Setting{Name: "source",
		Value:   func() string { return redacted(strings.Join(o.source, ",")) },
		Set:     func(v string) error { o.source = strings.Split(v, ","); return nil },
		SetList: func(v []string) error { o.source = v; return nil }})
	if file, ok := e.lookupEnv(config.Env("config")); ok && o.config == "" {
		o.config = file
	}
	if err := config.Resolve(settings, e.environ(), o.config); err != nil {
		return nil, usageError{err}
	}
	return settings, nil
}

// setFlag sets a flag from a variable or a file. There, yes is not a boolean, and a number
// that begins with 0 is ambiguous: octal to some, decimal to others.
func setFlag(f *pflag.FlagSet, fl *pflag.Flag, v string) error {
	switch fl.Value.Type() {
	case "bool":
		if _, err := strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
	case "int", "int64":
		if _, err := strconv.ParseInt(v, 10, 64); err != nil || len(v) > 1 && v[0] == '0' {
			return fmt.Errorf("%q is not a whole number, such as 1000", v)
		}
	case "duration":
		if err := f.Set(fl.Name, v); err != nil {
			return fmt.Errorf("%q is not a duration, such as 500ms, 10s or 1h", v)
		}
	}
	err := f.Set(fl.Name, v)
	if inner := errors.Unwrap(err); inner != nil { // pflag's own message is about the command line
		return inner
	}
	return err
}

func (e *env) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages to a folder",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := c.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Title: "WEIR", Section: "1", Source: "weir"}, args[0])
		},
	}
}
