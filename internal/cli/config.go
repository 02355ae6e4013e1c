package cli

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
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
			settings, _, err := e.resolve(c.Flags(), o)
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
