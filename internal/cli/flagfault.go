package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/settings"
)

// flagFault returns an error for wrong flags, with the closest valid flag.
func (e *env) flagFault(c *cobra.Command, err error) error {
	e.useLogFormat(c)
	if c.HasSubCommands() { // a mistyped command can look like a wrong flag
		if err := noCommand(c, e.wordsAfter(c)); err != nil {
			return err
		}
	}
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		fl, cause := invalid.GetFlag(), invalid.Unwrap()
		if fl.Value.Type() == "bool" {
			cause = fmt.Errorf("%q is neither true nor false", invalid.GetValue())
		}
		err = fmt.Errorf("--%s: %w", fl.Name, cause)
	}
	return usagef("%s", settings.Redacted(err.Error())+similarFlag(c, err))
}

// useLogFormat applies the log format of the command line or environment. pflag has not parsed the flags after the
// fault.
func (e *env) useLogFormat(c *cobra.Command) {
	if c.Flags().Lookup("log-format") == nil {
		return
	}
	format, _ := e.lookupEnv("WEIR_LOG_FORMAT")
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	f.StringVar(&format, "log-format", format, "")
	_ = f.Parse(e.args) // the fault is reported already
	e.logAs(&settings.Output{LogFormat: settings.Format(format)})
}

// wordsAfter returns the arguments after the name of a command, up to the first flag.
func (e *env) wordsAfter(c *cobra.Command) []string {
	words := e.args
	if i := slices.IndexFunc(words, func(a string) bool { return strings.HasPrefix(a, "-") }); i >= 0 {
		words = words[:i]
	}
	return words[min(strings.Count(c.CommandPath(), " "), len(words)):]
}

func similarFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	var names []string
	c.Flags().VisitAll(func(fl *pflag.Flag) { names = append(names, "--"+fl.Name) })
	return feed.DidYouMean("--"+unknown.GetSpecifiedName(), names)
}
