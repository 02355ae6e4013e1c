// Package cli is weir's command line: commands, flags, messages, and exit codes.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/settings"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/spool"
)

// Set by the linker: see the Makefile.
var (
	version = "dev"
	commit  = "unknown"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitRejected = 3 // finished, but lines were rejected
	exitSignal   = 128
)

const exitHelp = `Exit codes: 0 done, 1 failed (or one of several files did), 2 wrong usage,
3 done but lines were rejected, 4 another run holds a source of this job, 130 or
143 stopped by a signal.`

func usagef(format string, args ...any) error { return settings.Usagef(format, args...) }

// codeError ends the program with an exit code and no message.
type codeError int

func (c codeError) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
func (c codeError) ExitCode() int { return int(c) }

// env is a command's environment.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       func(fd int) bool
	lookupEnv      func(string) (string, bool)
	environ        func() []string
	verbose, quiet bool
	args           []string     // command-line arguments
	line           *statusLine  // writes messages to stderr
	log            *slog.Logger // writes to line
	// stopped returns the signal that ended the context, or nil.
	stopped func() os.Signal
}

// newEnv returns the environment of this process.
func newEnv() *env {
	return &env{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: term.IsTerminal, lookupEnv: os.LookupEnv, environ: os.Environ}
}

// Main runs the program and returns its exit code.
func Main() int {
	// Writing to a closed pipe returns an error instead of ending the process.
	signal.Ignore(syscall.SIGPIPE)
	w := newEnv()
	ctx, done := w.untilSignal()
	defer done()
	return w.run(ctx, os.Args[1:])
}

// width returns the width in columns of the terminal at a file.
func (e *env) width(to io.Writer) int {
	if f, ok := to.(*os.File); ok && e.terminal(int(f.Fd())) {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return 80
}

// untilSignal returns a context that the first signal ends. The second signal ends the program. A signal right after
// the first is ignored: timeout(1) signals both the program and its process group.
func (e *env) untilSignal() (context.Context, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if e.terminal(int(os.Stderr.Fd())) {
		signals = append(signals, syscall.SIGHUP)
	} else {
		signal.Ignore(syscall.SIGHUP)
	}
	c := make(chan os.Signal, 2)
	signal.Notify(c, signals...)
	var first atomic.Value
	go func() {
		s := <-c
		first.Store(s)
		cancel()
		for at := time.Now(); time.Since(at) < 250*time.Millisecond; {
			s = <-c
		}
		os.Exit(code(s))
	}()
	e.stopped = func() os.Signal {
		s, _ := first.Load().(os.Signal)
		return s
	}
	return ctx, cancel
}

func code(s os.Signal) int {
	n, _ := s.(syscall.Signal)
	return exitSignal + int(n)
}

func (e *env) run(ctx context.Context, args []string) int {
	e.line = &statusLine{w: e.stderr}
	e.log = slog.New(&textHandler{w: e.line, prefix: logPrefix, level: e})
	root := e.root()
	e.args = args
	root.SetArgs(args)
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	command, err := root.ExecuteContextC(ctx)
	if errors.Is(err, context.Canceled) && e.stopped() != nil {
		err = cmp.Or(withoutCanceled(err), err)
	}
	code := e.exitCode(err)
	if err == nil || errors.As(err, new(codeError)) || code > exitSignal || command.Name() != "sync" && readerLeft(err) {
		return code
	}
	var hint []any
	switch {
	case errors.As(err, new(settings.UsageError)):
		hint = []any{hintField, "See '" + command.CommandPath() + " --help'."}
	case errors.As(err, new(sink.BusyError)):
		wait := "Stop it, or wait for it to end"
		if command.Name() == "sync" {
			wait += ", or run another job: --job NAME"
		}
		hint = []any{hintField, wait}
	case spool.IsFull(err):
		hint = []any{hintField, "Free some space and run weir again"}
	}
	e.log.Error(err.Error(), hint...)
	return code
}

// readerLeft reports whether the reader of stdout, such as head, has ended. A command that only prints then needs no
// error message.
func readerLeft(err error) bool {
	var path *fs.PathError
	return errors.Is(err, syscall.EPIPE) && errors.As(err, &path) && path.Path == os.Stdout.Name()
}

// withoutCanceled removes context.Canceled from a joined error. It returns nil if there is no other error.
func withoutCanceled(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, each := range joined.Unwrap() {
			rest = append(rest, withoutCanceled(each))
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// exitCode returns the exit code for the error of a command; nil is success.
func (e *env) exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	if errors.Is(err, context.Canceled) {
		if s := e.stopped(); s != nil {
			return code(s)
		}
	}
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return exitFailed
}

// Commands returns the command line of weir with all its commands, for programs that document it.
func Commands() *cobra.Command { return newEnv().root() }

func (e *env) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "weir",
		Short: "Apply partial JSON updates to SQLite or Postgres tables, exactly once",
		Long: `weir applies a stream of partial JSON updates to SQLite or Postgres tables, fast
and exactly once.

Each line names the columns that changed in one row. weir folds the updates of
each row together in memory and writes them in batches. Each batch is one
transaction, with a checkpoint: the next run resumes where the last batch ended.

    weir sync flights.jsonl.gz --to flights.db       # a captured feed into SQLite
    tail -F feed.log | weir sync --table flights --to flights.db
    weir sync tcp://localhost:4000 --table flights --to flights.db
    weir sync flights.jsonl.gz --to postgres://weir@db.example/air
    weir status --to flights.db                      # checkpoints and rejected lines

` + exitHelp + `

Documentation: https://github.com/weirsync/weir/tree/main/docs, in packages also
/usr/share/doc/weir.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.Flags().Bool("version", false, "print the version")
	root.PersistentFlags().BoolVarP(&e.verbose, "verbose", "v", false, "print more, such as the settings in use")
	root.PersistentFlags().BoolVarP(&e.quiet, "quiet", "q", false, "print only warnings and errors, and what was asked for")
	root.SetVersionTemplate(thisBuild.String())
	root.SetFlagErrorFunc(e.flagFault)
	e.useFlagGroups(root)
	root.AddCommand(e.syncCommand(), e.replayCommand(), e.statusCommand(), e.rejectsCommand(), e.forgetCommand(), e.explainCommand(), e.verifyCommand(), e.configCommand(), e.versionCommand())
	prepare(root)
	return root
}

// noCommand checks the arguments of a command that only has subcommands.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		names = append(names, sub.Name())
	}
	return usagef("%s has no command %q%s", c.CommandPath(), settings.Redacted(args[0]), feed.DidYouMean(args[0], names))
}

// prepare prepares a command and its subcommands: wrong arguments become usage errors, and the shell completes flag
// values.
func prepare(c *cobra.Command) {
	completeValues(c)
	for _, sub := range c.Commands() {
		prepare(sub)
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			switch {
			case err == nil || errors.As(err, new(settings.UsageError)):
				return err
			case len(args) == 0:
				return usagef("arguments are missing: %s", c.UseLine())
			}
			return usagef("wrong arguments %q: %s", settings.Redacted(strings.Join(args, " ")), c.UseLine())
		}
	}
}

func (e *env) versionCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the version and what is built in",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return e.printJSON(thisBuild)
			}
			_, err := fmt.Fprint(e.stdout, thisBuild)
			return err
		},
	}
	addJSON(c.Flags(), &asJSON)
	return c
}

// A build is what the program was built from.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Database string `json:"database"` // that is built in
}

var thisBuild = build{version, commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, builtIn}

func (b build) String() string {
	return fmt.Sprintf("weir %s (commit %s, %s, %s, %s)\n", b.Version, b.Commit, b.Go, b.Platform, b.Database)
}

func addJSON(f *pflag.FlagSet, value *bool) { f.BoolVar(value, "json", false, "print JSON") }

func (e *env) printJSON(v any) error { return json.NewEncoder(e.stdout).Encode(v) }

// confirm prints that all is well, unless the user wants to hear of faults only.
func (e *env) confirm(format string, args ...any) error {
	if e.quiet {
		return nil
	}
	_, err := fmt.Fprintln(e.stdout, printable(fmt.Sprintf(format, args...)))
	return err
}

// printable replaces control characters, with which text from a feed or database could manipulate the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || 0x80 <= r && r < 0xa0 {
			return '�'
		}
		return r
	}, s)
}
