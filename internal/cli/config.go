package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/quantity"
)

func (e *env) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Show and check settings and config files",
		Args:  noCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(e.configPrintCommand(), e.configCheckCommand(), e.configTestCommand(), e.configSchemaCommand())
	return c
}

func (e *env) configPrintCommand() *cobra.Command {
	o := &syncOptions{}
	c := &cobra.Command{
		Use:   "print",
		Short: "Print each setting of sync, its value and where it came from",
		Long: `Print each setting of sync, its value and where it came from: a flag beats a
variable (WEIR_BATCH_ROWS), a variable beats the config file, the file beats the
default. The tables of a file follow, with what each takes from the top of the
file.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			settings, file, err := e.resolve(c.Flags(), o)
			if err != nil {
				return err
			}
			t := tabwriter.NewWriter(e.stdout, 0, 0, 2, ' ', 0)
			for _, s := range settings {
				if s.Once {
					continue
				}
				fmt.Fprintf(t, "%s\t%s\t%s\n", s.Name, printable(s.Value()), originText(s))
			}
			if err := t.Flush(); err != nil || file.Mapping == nil {
				return err
			}
			tables, err := config.Print(file.Mapping)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(e.stdout, "\n%s", tables)
			return err
		},
	}
	o.flags(c.Flags())
	return c
}

// originText is where the value of a setting came from.
func originText(s *config.Setting) string {
	if s.Origin == config.Default && s.Why != nil {
		return s.Origin + ": " + s.Why()
	}
	return s.Origin
}

func (e *env) configCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Check a config file",
		Long: `Check a config file by itself, without the environment, the sources and the
database, and print all of its faults, each with file, line and column.

Exit codes: 0 the file is right, 1 failed, 2 it has faults.`,
		Example: `  weir config check weir.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := e.checkFile(c, args[0])
			if err != nil {
				return err
			}
			if file.Mapping == nil {
				_, err = fmt.Fprintf(e.stdout, "%s is right\n", args[0])
			} else {
				_, err = fmt.Fprintf(e.stdout, "%s is right: %s, %s\n", args[0], quantity.Count(int64(len(file.Mapping.Tables)), "table"), quantity.Count(int64(len(file.Cases)), "test"))
			}
			return err
		},
	}
}

// checkFile reads a config file without the environment. Its faults are a [usageError].
func (e *env) checkFile(c *cobra.Command, path string) (config.File, error) {
	o := syncOptions{}
	f := o.flagSet(c)
	o.config = path
	alone := *e
	alone.environ, alone.lookupEnv = func() []string { return nil }, func(string) (string, bool) { return "", false }
	_, file, err := alone.resolve(f, &o)
	if unread := new(fs.PathError); errors.As(err, &unread) {
		return file, unread
	} else if err != nil {
		return file, usageError{err}
	}
	_, rulesErr := o.rules()
	_, rateErr := readRate("max-rate", o.maxRate)
	_, rejectsErr := o.parse()
	limits, toErr := caseDriver.Caps.Limits, error(nil)
	limits.FoldCase = false // names that only SQLite takes for one are no fault of a file that names no database
	if o.to != "" {
		var to destination
		to, toErr = alone.destination(o.to)
		limits = to.Caps.Limits
	}
	_, tablesErr := mapping.Compile(file.Mapping, &feed.Names{}, limits)
	if err := errors.Join(rulesErr, o.check(), rateErr, rejectsErr, toErr, config.Locate(path, tablesErr)); err != nil {
		return file, usageError{err}
	}
	return file, nil
}

func (e *env) configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of config files",
		Long: `Print the JSON Schema of config files, with which editors complete and check
them. With the YAML language server, the first line of a file names it:

  # yaml-language-server: $schema=weir.schema.json`,
		Example: `  weir config schema >weir.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var o syncOptions
			schema, err := config.Schema(slices.DeleteFunc(settingsOf(o.flagSet(c), &o), func(s *config.Setting) bool { return s.Name == "config" }), kinds())
			if err != nil {
				return err
			}
			_, err = e.stdout.Write(schema)
			return err
		},
	}
}
