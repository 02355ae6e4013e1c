package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/settings"
)

const generalFlags = "General" // flags that are in no other group

// flagGroups are the groups of flags in the order of the help.
var flagGroups = append(settings.Groups(), generalFlags)

// common are the flags that sync --help shows; --help-all shows all.
var common = []string{
	"to", "table", "key", "job", "config", "dry-run", "follow", "max-rate", "restart",
	"delete-when", "version-field", "merge", "envelope", "row", "when", "columns", "unknown-fields",
	"batch-period", "buffer", "synchronous", "retry-for", "rejects", "init", "resume-field", "spool",
	"group", "partitions", "metrics-addr", "log-format", "quiet", "verbose", helpAll, "help",
}

const helpAll = "help-all"

// fewFlags is up to how many flags the help shows without groups.
const fewFlags = 12

// flagUsages describes flags by group, wrapped to a number of columns; 0 does not wrap.
func flagUsages(f *pflag.FlagSet, columns int) string {
	groups := map[string][]*pflag.Flag{}
	count := 0
	f.VisitAll(func(fl *pflag.Flag) {
		count++
		title := generalFlags
		if a := fl.Annotations[settings.GroupAnnotation]; len(a) > 0 {
			title = a[0]
		}
		groups[title] = append(groups[title], fl)
	})
	if len(groups) < 2 || count < fewFlags {
		return "Flags:\n" + f.FlagUsagesWrapped(columns)
	}
	all := f.Lookup(helpAll)
	short := columns > 0 && all != nil && !all.Changed
	var b strings.Builder
	for _, title := range flagGroups {
		g := pflag.NewFlagSet(title, pflag.ContinueOnError)
		g.SortFlags = false
		for _, fl := range groups[title] {
			if !short || slices.Contains(common, fl.Name) {
				g.AddFlag(fl)
			}
		}
		if g.HasFlags() {
			b.WriteString("\n" + title + ":\n" + g.FlagUsagesWrapped(columns))
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// useFlagGroups shows the flags by group in the help of a command and its subcommands.
func (e *env) useFlagGroups(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", func(f *pflag.FlagSet) string { return flagUsages(f, e.width(e.stdout)) })
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages |", "{{flagUsages .LocalFlags |", 1))
}

// fileFlags are the flags whose values are paths.
var fileFlags = []string{"to", "config", "init", "spool", "capture", "metrics-file", "tls-ca", "tls-cert", "tls-key", "html"}

func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(fl *pflag.Flag) {
		var words []string
		if v, ok := fl.Value.(interface{ Choices() []string }); ok {
			words = v.Choices()
		}
		if words != nil || fl.Value.Type() != "bool" && !slices.Contains(fileFlags, fl.Name) {
			_ = c.RegisterFlagCompletionFunc(fl.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
		}
	})
}
