package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/config"
)

// The groups of flags, in the order in which the help shows them.
const (
	sourceFlags  = "Source"
	tableFlags   = "Table"
	foldFlags    = "Fold"
	batchFlags   = "Batching and durability"
	feedFlags    = "Feeds"
	kafkaFlags   = "Kafka"
	spoolFlags   = "Spool and capture"
	rejectFlags  = "Rejects"
	logFlags     = "Metrics and logs"
	generalFlags = "General" // those of no other group
)

var flagGroups = []string{tableFlags, sourceFlags, foldFlags, batchFlags, feedFlags, kafkaFlags, spoolFlags, rejectFlags, logFlags, generalFlags}

// common are the flags of sync that --help shows; --help-all shows the others, too.
var common = []string{
	"to", "table", "key", "job", "config", "dry-run", "follow", "max-rate", "restart",
	"delete-when", "version-field", "envelope", "row", "when", "columns", "unknown-fields",
	"batch-period", "buffer", "synchronous", "retry-for", "rejects", "init", "resume-field", "spool",
	"group", "partitions", "metrics-addr", "log-format", "quiet", "verbose", helpAll, "help",
}

const helpAll = "help-all"

const groupAnnotation = "weir_group"

// inGroup defines flags that the help shows under a title.
func inGroup(f *pflag.FlagSet, title string, define func(*pflag.FlagSet)) {
	g := pflag.NewFlagSet(title, pflag.ContinueOnError)
	g.SortFlags = false
	define(g)
	g.VisitAll(func(fl *pflag.Flag) { fl.Annotations = map[string][]string{groupAnnotation: {title}} })
	f.AddFlagSet(g)
}

// flagUsages describes flags under the titles of their groups, in lines of a number of columns; 0 is
// no limit.
func flagUsages(f *pflag.FlagSet, columns int) string {
	groups := map[string][]*pflag.Flag{}
	f.VisitAll(func(fl *pflag.Flag) {
		title := generalFlags
		if a := fl.Annotations[groupAnnotation]; len(a) > 0 {
			title = a[0]
		}
		groups[title] = append(groups[title], fl)
	})
	if len(groups) < 2 {
		return "Flags:\n" + f.FlagUsagesWrapped(columns)
	}
	all := f.Lookup(helpAll)
	short := columns > 0 && all != nil && !all.Changed
	var b strings.Builder
	for _, title := range flagGroups {
		first := true
		for _, fl := range groups[title] {
			if short && !slices.Contains(common, fl.Name) {
				continue
			}
			if first {
				b.WriteString("\n" + title + ":\n")
			}
			first = false
			writeFlag(&b, fl, columns)
		}
	}
	return strings.TrimPrefix(b.String(), "\n")
}

// textColumn is where the help says what a flag does.
const textColumn = 26

// writeFlag describes a flag in lines of a number of columns; 0 is no limit.
func writeFlag(b *strings.Builder, fl *pflag.Flag, columns int) {
	one := pflag.NewFlagSet("", pflag.ContinueOnError)
	one.AddFlag(fl)
	name, text, _ := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   ")
	if fl.Shorthand == "" {
		name = "    " + name
	}
	line := "  " + name
	if len(line)+2 > textColumn {
		b.WriteString(line + "\n")
		line = ""
	}
	line += strings.Repeat(" ", textColumn-len(line))
	written := 0 // words of the line
	for word := range strings.FieldsSeq(text) {
		if written > 0 && columns > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line, written = strings.Repeat(" ", textColumn), 0
		}
		if written > 0 {
			line += " "
		}
		line += word
		written++
	}
	b.WriteString(line + "\n")
}

// useFlagGroups has the help of a command and all below it show flags by group.
func (e *env) useFlagGroups(root *cobra.Command) {
	cobra.AddTemplateFunc("flagUsages", func(f *pflag.FlagSet) string { return flagUsages(f, e.helpWidth()) })
	root.SetUsageTemplate(strings.Replace(root.UsageTemplate(), "Flags:\n{{.LocalFlags.FlagUsages |", "{{flagUsages .LocalFlags |", 1))
}

// A whole is the value of a flag that takes a whole number from 0, which is decimal: pflag's own would read 010 as 8.
type whole[T int | int64] struct{ value *T }

func (w whole[T]) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil && n < 0 {
		return errors.New("must be 0 or more")
	}
	if *w.value = T(n); err == nil && (strconv.FormatInt(n, 10) != s || int64(T(n)) != n) {
		err = strconv.ErrSyntax
	}
	return err
}

func (w whole[T]) String() string {
	if w.value == nil { // pflag's zero value
		return "0"
	}
	return strconv.FormatInt(int64(*w.value), 10)
}

// Type is what pflag calls it.
func (w whole[T]) Type() string { return "int" }

// addWhole defines the flag of a whole number.
func addWhole[T int | int64](f *pflag.FlagSet, value *T, flag string, preset T, usage string) {
	*value = preset
	f.Var(whole[T]{value}, flag, usage)
}

// A choice is the value of a flag that takes one of several words. Any word can be set:
// faults judges them all, so that one run reports every fault of a command line.
type choice[T ~string] struct {
	flag    string
	preset  T
	value   *T
	allowed []T
}

func (c *choice[T]) Set(s string) error { *c.value = T(s); return nil }
func (c *choice[T]) String() string     { return string(*c.value) }

// Type is short: the help has it between a flag and what it is for.
func (c *choice[T]) Type() string {
	words := strings.Join(c.words(), "|")
	if len(words) > maxType {
		words = words[:strings.LastIndexByte(words[:maxType], '|')+1] + "…"
	}
	return words
}

const maxType = 24 // characters

func (c *choice[T]) words() []string {
	words := make([]string, len(c.allowed))
	for i, a := range c.allowed {
		words[i] = string(a)
	}
	return words
}

func (c *choice[T]) fault() error {
	if *c.value == c.preset || slices.Contains(c.allowed, *c.value) {
		return nil
	}
	words := c.words()
	meant := config.DidYouMean(string(*c.value), words)
	last := len(words) - 1
	if last > 0 {
		words = []string{strings.Join(words[:last], ", "), words[last]}
	}
	return fmt.Errorf("--%s %q: must be %s%s", c.flag, *c.value, strings.Join(words, " or "), meant)
}

// choices are those of a command.
type choices []interface{ fault() error }

// addChoice defines the flag of a choice.
func addChoice[T ~string](cs *choices, f *pflag.FlagSet, value *T, flag string, preset T, usage string, allowed ...T) {
	*value = preset
	c := &choice[T]{flag, preset, value, allowed}
	if strings.HasSuffix(c.Type(), "…") {
		usage += ": " + strings.Join(c.words(), ", ")
	}
	*cs = append(*cs, c)
	f.Var(c, flag, usage)
}

// faults are the flags whose value is none of their words.
func (cs choices) faults() (err error) {
	for _, c := range cs {
		err = errors.Join(err, c.fault())
	}
	return err
}

// fileFlags take paths.
var fileFlags = []string{"to", "config", "init", "spool", "capture", "metrics-file", "tls-ca", "tls-cert", "tls-key", "html"}

// completeValues has the shell complete the values of flags.
func completeValues(c *cobra.Command) {
	c.Flags().VisitAll(func(fl *pflag.Flag) {
		words, directive := []string(nil), cobra.ShellCompDirectiveNoFileComp
		v, isChoice := fl.Value.(interface{ words() []string })
		switch {
		case isChoice:
			words = v.words()
		case fl.Name == "rejects" && fl.Value.Type() == "string":
			words, directive = []string{"table", "file:", "topic:", "fail", "discard"}, directive|cobra.ShellCompDirectiveNoSpace
		case fl.Value.Type() == "bool" || slices.Contains(fileFlags, fl.Name):
			return
		}
		_ = c.RegisterFlagCompletionFunc(fl.Name, cobra.FixedCompletions(words, directive)) // the flag exists
	})
}
