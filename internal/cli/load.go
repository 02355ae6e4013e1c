package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/settings"
)

// foldBuffer is the memory in bytes for batches of commands that fold but do not sync.
const foldBuffer = 256 << 20

// surroundings returns the drivers, source kinds, variables and stdin of this process.
func (e *env) surroundings() *settings.Env {
	return &settings.Env{Drivers: drivers, Lookup: e.lookupEnv, Environ: e.environ(), Stdin: e.stdin, Log: e.log,
		Asks: e.stdin == os.Stdin && e.terminal(int(os.Stdin.Fd()))}
}

func (e *env) newSpec() *settings.Spec { return settings.New(e.surroundings()) }

// load sets the settings that no flag has set, from the environment and the config file.
func (e *env) load(c *cobra.Command, o *settings.Spec) error {
	for _, name := range []string{"verbose", "quiet"} {
		if f := c.Flags().Lookup(name); f != nil && f.Changed {
			_ = o.Setting(name).Set(f.Value.String()) // a boolean always parses
		}
	}
	warnings, err := o.Load()
	if e.verbose, e.quiet = o.Output.Verbose, o.Output.Quiet; c.Flags().Lookup("log-format") != nil {
		e.logAs(&o.Output)
	}
	for _, w := range warnings {
		e.log.Warn(w)
	}
	if err != nil {
		return settings.Usage(err)
	}
	return nil
}
