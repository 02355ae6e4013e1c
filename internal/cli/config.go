package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/settings"
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
	o := e.newSpec()
	c := &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the settings of sync as a config file",
		Long: `Print the settings of sync as a config file, each with where it came from: a flag
beats a variable (WEIR_BATCH_ROWS), a variable beats FILE, and FILE beats the
default. Defaults are comments, and so are values with a secret, which is hidden.`,
		Example: `  weir config print weir.yaml --batch-rows 1000`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				_ = o.Setting("config").Set(args[0]) // a text always parses
			}
			if err := e.load(c, o); err != nil {
				return err
			}
			return o.Print(e.stdout)
		},
	}
	o.AddFlags(c.Flags())
	return c
}

func (e *env) configCheckCommand() *cobra.Command {
	var connect, asJSON bool
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Check a config file",
		Long: `Check a config file without the environment, the sources and the database, and
print all errors that sync would report before it connects, each with file, line
and column. Files that settings name are read.

--connect also reads the environment, opens the database and each source once,
and prints what a run would find there: tables, keys, types, permissions,
checkpoints. It reads no feed and writes nothing.

Exit codes: 0 the file is valid, 1 failed, or a run would fail, 2 it has errors.`,
		Example: `  weir config check weir.yaml
  weir config check weir.yaml --connect`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o, err := e.readFile(args[0], true)
			var found findings
			if connect && err == nil {
				found, err = e.connect(c.Context(), args[0])
			}
			said := checked{File: args[0], Valid: err == nil, Findings: found}
			if err != nil {
				said.Errors = strings.Split(err.Error(), "\n")
			} else if said.Tests = len(o.Cases); o.Mapping != nil {
				said.Tables = len(o.Mapping.Tables)
			}
			if asJSON {
				return errors.Join(err, e.printJSON(said), found.err())
			} else if err != nil {
				return err
			}
			return e.printChecked(&said)
		},
	}
	c.Flags().BoolVar(&connect, "connect", false, "open the database and each source, and check what a run would find")
	addJSON(c.Flags(), &asJSON)
	return c
}

// checked is what config check prints with --json.
type checked struct {
	File     string   `json:"file"`
	Valid    bool     `json:"valid"`
	Errors   []string `json:"errors,omitempty"`
	Tables   int      `json:"tables"`
	Tests    int      `json:"tests"`
	Findings findings `json:"findings,omitempty"`
}

func (e *env) printChecked(c *checked) (err error) {
	if c.Tables == 0 {
		err = e.confirm("%s: valid", c.File)
	} else {
		err = e.confirm("%s: valid: %s, %s", c.File, quantity.Count(int64(c.Tables), "table"), quantity.Count(int64(c.Tests), "test"))
	}
	for _, f := range c.Findings {
		if f.OK {
			err = errors.Join(err, e.confirm("ok: %s %s", f.About, f.Text))
		} else {
			_, failed := fmt.Fprintln(e.stdout, printable(fmt.Sprintf("fault: %s: %s", f.About, f.Text)))
			err = errors.Join(err, failed)
		}
	}
	return errors.Join(err, c.Findings.err())
}

// readFile reads a config file without environment variables, and checks its tables, or all of it. Its faults are usage
// errors, except that it cannot be read.
func (e *env) readFile(path string, all bool) (*settings.Spec, error) {
	alone := e.surroundings()
	alone.FileOnly, alone.Environ, alone.Stdin, alone.Asks = true, nil, nil, false
	o := settings.New(alone)
	o.File = path
	_, err := o.Load()
	if all {
		err = o.Validate() // with the error of Load
	}
	if unread := new(fs.PathError); errors.As(err, &unread) {
		return o, unread
	} else if err != nil {
		return o, settings.Usage(err)
	}
	return o, nil
}

func (e *env) configSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of config files",
		Long: `Print the JSON Schema of config files. Editors use it to complete and check them.
With the YAML language server, the first line of a file names it:

  # yaml-language-server: $schema=weir.schema.json`,
		Example: `  weir config schema >weir.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			schema, err := e.newSpec().Schema()
			if err != nil {
				return err
			}
			_, err = e.stdout.Write(schema)
			return err
		},
	}
}
