// Man writes the manual pages of weir for a release.
//
//	go run ./docs/dev/man DIR VERSION
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/weirsync/weir/internal/cli"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: man DIR VERSION")
		os.Exit(2)
	}
	if err := writeManual(cli.Commands(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// writeManual writes the pages of a command and its subcommands.
func writeManual(c *cobra.Command, dir, version string) error {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			if err := writeManual(sub, dir, version); err != nil {
				return err
			}
		}
	}
	var page bytes.Buffer
	c.DisableAutoGenTag = true
	if err := doc.GenMan(c, &doc.GenManHeader{Source: "weir " + version, Manual: "weir manual"}, &page); err != nil {
		return err
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	return os.WriteFile(filepath.Join(dir, name), []byte(withSections(page.String(), c)), 0o644)
}

// exitCodes matches the paragraph of a description that becomes a section.
var exitCodes = regexp.MustCompile(`(?s)\n\.PP\nExit codes: (.*?\.)\n`)

// withSections adds the sections that cobra does not write.
func withSections(page string, c *cobra.Command) string {
	var more strings.Builder
	more.WriteString(commands(c))
	if m := exitCodes.FindStringSubmatch(page); m != nil {
		page = strings.Replace(page, m[0], "\n", 1)
		more.WriteString(".SH EXIT STATUS\n" + m[1] + "\n\n")
	}
	if f := c.Flags(); f.Lookup("to") != nil {
		more.WriteString(section("ENVIRONMENT", environment, f.Lookup("batch-rows") != nil))
		more.WriteString(section("FILES", files, f.Lookup("batch-rows") != nil))
	}
	page = strings.Replace(page, "\n.SH EXAMPLE\n", "\n.SH EXAMPLES\n", 1)
	for _, next := range []string{"\n.SH EXAMPLES\n", "\n.SH SEE ALSO\n"} {
		if strings.Contains(page, next) {
			return strings.Replace(page, next, "\n"+more.String()+next[1:], 1)
		}
	}
	return page + "\n" + more.String()
}

// commands returns the section on subcommands, or "".
func commands(c *cobra.Command) string {
	var entries []entry
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			entries = append(entries, entry{names: sub.CommandPath(), text: sub.Short})
		}
	}
	if entries == nil {
		return ""
	}
	return section("COMMANDS", entries, false)
}

// An entry is an item of a section.
type entry struct {
	names, text string
	sync        bool // only for weir sync
}

var environment = []entry{
	{"WEIR_CONFIG, WEIR_TO, …", "Each flag of weir sync has a variable: WEIR_BATCH_ROWS is --batch-rows. A flag beats a variable, and a variable beats the config file.", false},
	{"PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD, PGPASSFILE, PGSERVICE, PGSSLMODE, …", "What a connection string of Postgres leaves open, as for psql.", false},
	{"KAFKA_USERNAME, KAFKA_PASSWORD, KAFKA_PASSWORD_FILE", "The login of --sasl. A file is read again at each connection.", true},
	{"NOTIFY_SOCKET, WATCHDOG_USEC", "Where a service manager wants to be told that the run has started and is alive; see sd_notify(3).", true},
	{"GOMEMLIMIT", "The program's memory limit, instead of the one that weir derives from --buffer.", true},
}

var files = []entry{
	{"FILE-weir", "Beside an SQLite database FILE: the locks of the sources that are being read.", false},
	{"~/.pgpass, ~/.pg_service.conf", "Passwords and services of Postgres.", false},
	{"/etc/weir/NAME.yml, /etc/weir/NAME.env", "The settings and secrets of the service weir@NAME.", true},
	{"/var/lib/weir/NAME", "What the service weir@NAME writes.", true},
}

// section returns a section of a page.
func section(title string, entries []entry, sync bool) string {
	var b strings.Builder
	b.WriteString(".SH " + title + "\n")
	for _, e := range entries {
		if sync || !e.sync {
			b.WriteString(".TP\n\\fB" + strings.ReplaceAll(e.names, "-", `\-`) + "\\fP\n" + strings.ReplaceAll(e.text, "-", `\-`) + "\n")
		}
	}
	return b.String() + "\n"
}
