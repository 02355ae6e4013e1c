package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/spec"
)

// flagFault is a fault of a command's flags, for people.
func (e *env) flagFault(c *cobra.Command, err error) error {
	e.useLogFormat(c)
	if c.HasSubCommands() { // the fault may be the command's name, before a flag of the one that was meant
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
		err = spec.Named("--"+fl.Name, cause)
	}
	return usagef("%s", spec.Redacted(err.Error())+similarFlag(c, err))
}

// useLogFormat has the fault written as the command line or the environment asks: the flags after the fault were not
// parsed.
func (e *env) useLogFormat(c *cobra.Command) {
	if c.Flags().Lookup("log-format") == nil {
		return
	}
	format, _ := e.lookupEnv("WEIR_LOG_FORMAT")
	for i, a := range e.args {
		if a == "--" {
			break
		}
		if value, ok := strings.CutPrefix(a, "--log-format="); ok {
			format = value
		} else if a == "--log-format" && i+1 < len(e.args) {
			format = e.args[i+1]
		}
	}
	e.logAs(&spec.Output{LogFormat: spec.Format(format)})
}

// wordsAfter are the arguments behind the name of a command and before the first flag.
func (e *env) wordsAfter(c *cobra.Command) []string {
	words := e.args
	if i := slices.IndexFunc(words, func(a string) bool { return strings.HasPrefix(a, "-") }); i >= 0 {
		words = words[:i]
	}
	return words[min(strings.Count(c.CommandPath(), " "), len(words)):]
}

// similarFlag names the flag that a mistyped one is likely to mean.
func similarFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	if word := unknown.GetSpecifiedShortnames(); word != "" { // -to for --to
		if c.Flags().Lookup(word) != nil {
			return fmt.Sprintf("; did you mean %q?", "--"+word)
		}
		return ""
	}
	if unknown.GetSpecifiedName() == "version" {
		return "; weir --version prints the version"
	}
	var names []string
	c.Flags().VisitAll(func(fl *pflag.Flag) { names = append(names, "--"+fl.Name) })
	return config.DidYouMean("--"+unknown.GetSpecifiedName(), names)
}
