package cli_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/cli"
	"github.com/weirsync/weir/internal/testcheck"
)

// notRun are the commands that cannot run here, by how they begin, and why. What they give weir is parsed.
var notRun = map[string]string{
	"git clone https://":    "it downloads the source",
	"make demo":             "it writes into the source's folder",
	"make test":             "it runs the tests",
	"websocat -n":           "Debian has no websocat",
	"journalctl ":           "the machine may have no journal",
	"kubectl ":              "there is no cluster",
	"duckdb -c":             "Debian has no duckdb",
	"systemctl ":            "the machine may not be run by systemd",
	"useradd --system weir": "it changes the machine",
	"make build":            "it writes into the source's folder",
	"mkdir -p dist/image":   "of the image, see podman",
	"cp bin/weir /etc/ssl/": "of the image, see podman",
	"podman ":               "it needs an image, and rights that a test has not",
}

// A block is a part of a page with commands, and what they print.
type block struct {
	page     string
	commands []command
	prints   string // "": the page does not say
}

// A command is one as it is printed.
type command struct {
	text string
	exit int // the code that it ends with
}

// TestDocs_Commands runs the commands of README.md, docs, the help and the comments of contrib in their order,
// as they are printed, with local hosts in place of those of the page, in a folder for each page. Each ends
// and prints as its page says. Those that notRun lists are parsed, and so are those in sentences.
func TestDocs_Commands(t *testing.T) {
	testcheck.Only(t) // it needs many tools
	ran, parsed := 0, 0
	for page, text := range pages(t, "docs/*.md", "README.md", "SECURITY.md") {
		for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			parsed += parse(t, page, m[1], false)
		}
	}
	plays := map[string][]block{}
	var listed []string
	for _, b := range documented(t) {
		var run []command
		for _, c := range b.commands {
			if begins := listedAs(c.text); begins != "" {
				listed = append(listed, begins)
				parsed += parse(t, b.page, c.text, true)
				continue
			}
			run = append(run, c)
		}
		if b.commands = run; len(run) > 0 {
			plays[b.page] = append(plays[b.page], b)
		}
	}
	for begins := range notRun {
		if !slices.Contains(listed, begins) {
			t.Errorf("no page has the command that is listed as not run: %s", begins)
		}
	}
	for _, s := range stages {
		if plays[s.page] == nil {
			t.Errorf("no page has commands for the stage of %s", s.page)
		}
	}
	for page, blocks := range plays {
		s := stage{page: page}
		if i := slices.IndexFunc(stages, func(s stage) bool { return s.page == page }); i >= 0 {
			s = stages[i]
		}
		for _, b := range blocks {
			ran += len(b.commands)
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s.play(t, blocks)
		})
	}
	if ran < 80 || parsed < 60 {
		t.Errorf("did not exercise: %d commands run, %d parsed", ran, parsed)
	}
}

// listedAs returns what notRun lists a command by.
func listedAs(command string) string {
	for begins := range notRun {
		if strings.HasPrefix(command, begins) {
			return begins
		}
	}
	return ""
}

var (
	// A block of code, and its language.
	codeBlock = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	// A command in front of what it prints.
	prompt = regexp.MustCompile(`(?m)^\$ (.*)\n`)
	// A command in a sentence.
	codeSpan = regexp.MustCompile("`(weir [^`\n]*)`")
	// One that names a file is whole, unless it has words in capitals for what the user is to put there.
	names    = regexp.MustCompile(`\.(jsonl|json|yaml|db|gz)\b`)
	capitals = regexp.MustCompile(`[A-Z]{3}`)
	// A command in a comment of contrib.
	comment = regexp.MustCompile(`(?m)^#   ([a-z]+ [^:\n]*[^\n]*)$`)
	// A line of a description in the help.
	indented = regexp.MustCompile(`(?m)^    (\S.*)$`)
	// A command of the recording, and its exit code.
	typed = regexp.MustCompile(`(?m)^    \("([^#].*)", (\d+)\),$`)
)

// documented returns the commands of all pages.
func documented(t *testing.T) (all []block) {
	t.Helper()
	texts := pages(t, "README.md", "SECURITY.md", "docs/*.md", "docs/dev/*.md", "docs/cli/*.md", "contrib/*", "docs/recording/record")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text := texts[name]
		switch {
		case strings.HasPrefix(name, "docs/cli/"):
			all = append(all, helped(t, name, text)...)
		case strings.HasPrefix(name, "contrib/"):
			for _, m := range comment.FindAllStringSubmatch(text, -1) {
				all = append(all, block{page: name, commands: statements(t, m[1])})
			}
		case strings.HasSuffix(name, "/record"):
			b := block{page: name}
			for _, m := range typed.FindAllStringSubmatch(text, -1) {
				code, _ := strconv.Atoi(m[2])
				b.commands = append(b.commands, command{m[1], code})
			}
			all = append(all, b)
		default:
			all = append(all, printed(t, name, text)...)
		}
	}
	return all
}

// helped returns the examples of a command's help, and those in its description.
func helped(t *testing.T, page, text string) []block {
	b := block{page: page}
	for _, m := range indented.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		b.commands = append(b.commands, statements(t, m[1])...)
	}
	if _, examples, found := strings.Cut(text, "### Examples\n\n```\n"); found {
		examples, _, _ = strings.Cut(examples, "```")
		b.commands = append(b.commands, statements(t, examples)...)
	}
	return []block{b}
}

// printed returns the commands of a page: those in blocks of sh or behind a $, and then those in its sentences
// that are whole.
func printed(t *testing.T, page, text string) (all []block) {
	end := 0 // of the last block of sh
	for _, at := range codeBlock.FindAllStringSubmatchIndex(text, -1) {
		language, code := text[at[2]:at[3]], text[at[4]:at[5]]
		prompts := prompt.FindAllStringSubmatchIndex(code, -1)
		switch {
		case language == "sh":
			all = append(all, block{page: page, commands: statements(t, code)})
			end = at[1]
		case len(prompts) > 0:
			for i, p := range prompts {
				until := len(code)
				if i+1 < len(prompts) {
					until = prompts[i+1][0]
				}
				all = append(all, block{page: page, commands: []command{{text: code[p[2]:p[3]]}}, prints: code[p[1]:until]})
			}
		case language == "" && end > 0 && strings.TrimSpace(text[end:at[0]]) == "":
			all[len(all)-1].prints = code
		case language == "" && regexp.MustCompile(`(?m)^ *weir [a-z]`).MatchString(code):
			t.Errorf("%s: a block with commands is to begin with ```sh:\n%s", page, code)
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		if names.MatchString(m[1]) && !capitals.MatchString(m[1]) {
			all = append(all, block{page: page, commands: []command{{text: m[1]}}})
		}
	}
	return all
}

// statements splits commands of a shell: one ends at the line with which the shell has all of it.
func statements(t *testing.T, text string) (all []command) {
	t.Helper()
	whole := ""
	for line := range strings.Lines(text) {
		if whole == "" && (strings.TrimSpace(line) == "" || strings.HasPrefix(strings.TrimSpace(line), "#")) {
			continue
		}
		whole += line
		if strings.HasSuffix(line, "\\\n") {
			continue
		}
		if said, err := exec.Command("bash", "-n", "-c", whole).CombinedOutput(); err == nil && len(said) == 0 {
			all = append(all, command{text: strings.TrimSpace(whole)})
			whole = ""
		}
	}
	if whole != "" {
		t.Errorf("the shell does not take\n%s", whole)
	}
	return all
}

// parse has the shell run commands of a page, where weir only writes down its arguments and nothing else is, and parses these;
// whole ones have all operands, which may be missing in a sentence. It returns how often weir was called.
func parse(t *testing.T, page, commands string, whole bool) int {
	t.Helper()
	dir := t.TempDir()
	testcheck.NoError(t, os.Mkdir(filepath.Join(dir, "weir"), 0o700)) // as git clone makes it
	args, err := os.Create(filepath.Join(dir, "args"))
	testcheck.NoError(t, err)
	defer args.Close()
	var said strings.Builder
	c := exec.Command("bash", "-c", `command_not_found_handle() { :; }; weir() { printf '%s\0' "$@" $'\1' >&3; }`+"\n"+commands)
	c.Dir, c.Env, c.Stderr, c.ExtraFiles = dir, []string{"PATH=" + dir}, &said, []*os.File{args}
	if err := c.Run(); err != nil || said.Len() > 0 {
		t.Errorf("%s: %v\n%s\n%s", page, err, commands, said.String())
	}
	calls := strings.SplitAfter(read(t, args.Name()), "\x01\x00")
	for _, call := range calls[:len(calls)-1] {
		words := strings.Split(strings.TrimSuffix(call, "\x00\x01\x00"), "\x00")
		if err := cli.Parses(words, whole); err != nil {
			t.Errorf("%s: weir %s: %v", page, strings.Join(words, " "), err)
		}
	}
	if len(calls) == 1 && regexp.MustCompile(`(^|\| )weir `).MatchString(commands) {
		t.Errorf("%s: weir was not called by\n%s", page, commands)
	}
	return len(calls) - 1
}
