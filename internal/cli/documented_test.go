package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// What commands in the docs call beside weir: harmless ones are run, and of others nothing happens.
var (
	harmless = strings.Fields("cat head mkdir sed sort")
	others   = strings.Fields("apt buildah bzip2 cp curl duckdb go grep gunzip gzip journalctl jq kcat kubectl make mlr mosquitto_sub nc node podman promtool psql python3 sqlite3 systemctl tail unzip watch websocat xz zstd")
)

var (
	codeBlock = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	prompt    = regexp.MustCompile(`(?m)^\$ (.*)$`)
	codeSpan  = regexp.MustCompile("`(weir [^`\n]*)`")
)

// Every command line of weir in README.md, docs and the examples of the help has a command and flags
// that exist, and as many arguments as it takes: the shell reads the line, and what it gives weir is
// parsed. In the middle of a sentence arguments may be missing.
func TestDocs_CommandsParse(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(len(pages), err)
	}
	s := newRecorder(t)
	for _, page := range append(pages, "../../README.md", "../../SECURITY.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for _, m := range codeBlock.FindAllStringSubmatch(text, -1) {
			switch {
			case m[1] == "sh":
				s.check(page, m[2], true)
			case m[1] == "" && regexp.MustCompile(`(?m)^ *weir [a-z]`).MatchString(m[2]):
				t.Errorf("%s: a block with commands is to begin with ```sh:\n%s", page, m[2])
			}
			for _, line := range prompt.FindAllStringSubmatch(m[2], -1) {
				s.check(page, line[1], true)
			}
		}
		for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			s.check(page, m[1], false)
		}
	}
	s.examples((&env{}).root())
	if s.checked < 100 {
		t.Errorf("did not exercise: %d commands", s.checked)
	}
}

// A recorder runs commands in a folder where weir only writes down its arguments.
type recorder struct {
	t       *testing.T
	dir     string
	checked int
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	s := &recorder{t: t, dir: t.TempDir()}
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	script("weir", `printf '%s\0' "$@" >>`+s.dir+`/args; printf '\1' >>`+s.dir+"/args\n")
	for _, name := range others {
		script(name, "")
	}
	for _, name := range harmless {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(s.dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// examples checks those of a command and of all below it.
func (s *recorder) examples(c *cobra.Command) {
	if c.Example != "" {
		s.check(c.CommandPath(), c.Example, true)
	}
	for _, sub := range c.Commands() {
		s.examples(sub)
	}
}

// check has the shell run commands of a page, and parses what they give weir; whole ones have all
// arguments.
func (s *recorder) check(page, commands string, whole bool) {
	s.t.Helper()
	work, args := s.t.TempDir(), filepath.Join(s.dir, "args")
	if err := os.RemoveAll(args); err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"flights.jsonl", "feed.jsonl", "flights.csv"} { // which commands read
		if err := os.WriteFile(filepath.Join(work, name), nil, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	var said strings.Builder
	c := exec.Command("/bin/sh", "-c", commands)
	c.Dir, c.Env, c.Stderr, c.WaitDelay = work, []string{"PATH=" + s.dir, "HOME=" + work}, &said, 10*time.Second
	if err := c.Run(); err != nil || said.Len() > 0 {
		s.t.Errorf("%s: %v\n%s\n%s", page, err, commands, said.String())
	}
	b, _ := os.ReadFile(args) // there is none where weir was not called
	calls := strings.SplitAfter(string(b), "\x01")
	for _, call := range calls[:len(calls)-1] {
		s.checked++
		words := strings.Split(strings.TrimSuffix(call, "\x00\x01"), "\x00")
		if err := parses(words, whole); err != nil {
			s.t.Errorf("%s: weir %s: %v", page, strings.Join(words, " "), err)
		}
	}
	if len(calls) == 1 && strings.HasPrefix(commands, "weir ") {
		s.t.Errorf("%s: weir was not called by\n%s", page, commands)
	}
}

// parses parses the arguments of weir.
func parses(args []string, whole bool) error {
	root := (&env{lookupEnv: os.LookupEnv}).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd(args...)
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if c == root && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("there is no command %s", rest[0])
	}
	if err := c.ParseFlags(rest); err != nil || !whole {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}
