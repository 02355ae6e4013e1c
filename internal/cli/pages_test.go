package cli_test

import (
	"html"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weirsync/weir/internal/cli"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// notRun are the commands that cannot run here, by prefix, with the reason. Their arguments for weir are parsed.
var notRun = map[string]string{
	"git clone https://":             "it downloads the source",
	"make demo":                      "it writes into the source's folder",
	"make test":                      "it runs the tests",
	"websocat -n":                    "Debian has no websocat",
	"journalctl ":                    "the machine may have no journal",
	"kubectl ":                       "there is no cluster",
	"duckdb -c":                      "Debian has no duckdb",
	"systemctl ":                     "the machine may not be run by systemd",
	"useradd --system weir":          "it changes the machine",
	"podman ":                        "it needs an image, and rights that a test has not",
	"docker compose ":                "it needs images; TestExamples and TestMirror run what it starts",
	"curl -s http://127.0.0.1:9090/": "TestContrib_AlertsFireByTheirFaults starts a Prometheus",
}

// A command is a command in a page.
type command struct {
	text   string
	exit   int    // expected exit code
	begins bool   // prints is only the beginning of the output
	prints string // expected output; "": unknown
}

// TestDocs_Commands runs the commands of README.md, docs, examples, the help, the recording, and the comments of
// contrib, as printed and in order, with a folder per page. The script of a page in testdata/script/pages sets up what
// they need and checks their results. Without a script, commands must need nothing and exit with 0. Commands in notRun,
// and commands in sentences, are only parsed.
func TestDocs_Commands(t *testing.T) {
	testcheck.Only(t) // it needs many tools
	ran, parsed := 0, 0
	for page, text := range pages(t, "docs/*.md", "examples/*/README.md", "README.md", "SECURITY.md", "CONTRIBUTING.md") {
		for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			parsed += parse(t, page, m[1], false)
		}
	}
	runs, missing, dir := map[string][]command{}, maps.Clone(notRun), t.TempDir()
	var files []string
	for page, commands := range documented(t) {
		name := strings.ReplaceAll(page, "/", "_")
		for _, c := range commands {
			if begins := listedAs(c.text); begins != "" {
				delete(missing, begins)
				parsed += parse(t, page, c.text, true)
			} else {
				runs[name] = append(runs[name], c)
			}
		}
		if len(runs[name]) == 0 {
			continue
		}
		ran += len(runs[name])
		file := "../../testdata/script/pages/" + name + ".txtar"
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(dir, name+".txtar")
			testcheck.NoError(t, os.WriteFile(file, []byte("runs\n"), 0o600))
		}
		files = append(files, file)
	}
	for begins := range missing {
		t.Errorf("no page has the command that is listed as not run: %s", begins)
	}
	for name := range pages(t, "testdata/script/pages/*") {
		if !slices.Contains(files, "../../"+name) {
			t.Errorf("no page has commands for %s", name)
		}
	}
	if ran < 120 || parsed < 40 {
		t.Errorf("did not exercise: %d commands run, %d parsed", ran, parsed)
	}
	feed := strings.Join(unzipped(t, "flights.jsonl.gz")[:50], "\n") + "\n"
	scripts(t, testscript.Params{Files: files}, nil, func(s *script, e *testscript.Env) {
		s.setPage(e, feed, runs[path.Base(s.Name())])
	})
}

// listedAs returns the entry of notRun for a command.
func listedAs(command string) string {
	for begins := range notRun {
		if strings.HasPrefix(command, begins) {
			return begins
		}
	}
	return ""
}

var (
	// A code block and its language.
	codeBlock = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	// A command followed by its output.
	prompt = regexp.MustCompile(`(?m)^\$ (.*)\n((?:[^$].*\n|\n)*)`)
	// A command in a sentence.
	codeSpan = regexp.MustCompile("`(weir [^`\n]*)`")
	// A command that names a file is complete, unless it has placeholders in capitals.
	names    = regexp.MustCompile(`\.(jsonl|json|yaml|db|gz)\b`)
	capitals = regexp.MustCompile(`[A-Z]{3}`)
	// A command in a comment of contrib.
	comment = regexp.MustCompile(`(?m)^#   ([a-z]+ [^:\n]*[^\n]*)$`)
	// A line with a command in the help.
	indented = regexp.MustCompile(`(?m)^  +(\S.*)$`)
	// A command of the recording, and its exit code.
	typed = regexp.MustCompile(`(?m)^    \("([^#].*)", (\d+)\),$`)
)

// documented returns the commands of all pages, by page name.
func documented(t *testing.T) map[string][]command {
	t.Helper()
	all := map[string][]command{}
	for name, text := range pages(t, "README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/*.md", "docs/dev/*.md", "docs/dev/decisions/*.md", "docs/cli/*.md", "examples/*/README.md", "contrib/*", "docs/recording/record") {
		switch {
		case strings.HasPrefix(name, "docs/cli/"): // the description and the examples
			text, _, _ = strings.Cut(text, "### Options")
			for _, m := range indented.FindAllStringSubmatch(text, -1) {
				all[name] = append(all[name], statements(t, m[1])...)
			}
		case strings.HasPrefix(name, "contrib/"):
			for _, m := range comment.FindAllStringSubmatch(text, -1) {
				all[name] = append(all[name], statements(t, m[1])...)
			}
		case strings.HasSuffix(name, "/record"):
			shown := html.UnescapeString(read(t, "../../docs/recording/session.svg"))
			for _, m := range typed.FindAllStringSubmatch(text, -1) {
				code, _ := strconv.Atoi(m[2])
				if !strings.Contains(shown, m[1]) {
					t.Errorf("the recording does not show %s: docs/recording/record makes it", m[1])
				}
				all[name] = append(all[name], command{text: m[1], exit: code})
			}
		default:
			all[name] = printed(t, name, text)
		}
	}
	return all
}

// printed returns the commands of a page: first those in sh blocks or after $, then the complete ones in sentences.
func printed(t *testing.T, page, text string) (all []command) {
	end := 0 // of the last sh block
	for _, at := range codeBlock.FindAllStringSubmatchIndex(text, -1) {
		language, code := text[at[2]:at[3]], text[at[4]:at[5]]
		switch {
		case language == "sh":
			all = append(all, statements(t, code)...)
			end = at[1]
		case prompt.MatchString(code):
			for _, m := range prompt.FindAllStringSubmatch(code, -1) {
				all = append(all, command{text: m[1], begins: true, prints: m[2]})
			}
		case language == "" && end > 0 && strings.TrimSpace(text[end:at[0]]) == "":
			all[len(all)-1].prints = code
		case language == "" && regexp.MustCompile(`(?m)^ *weir [a-z]`).MatchString(code):
			t.Errorf("%s: a block with commands is to begin with ```sh:\n%s", page, code)
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		if names.MatchString(m[1]) && !capitals.MatchString(m[1]) {
			all = append(all, command{text: m[1], begins: true})
		}
	}
	return all
}

// statements splits shell commands. A command ends with the line that completes it for the shell.
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
			all = append(all, command{text: strings.TrimSpace(whole), begins: len(all) == 0})
			whole = ""
		}
	}
	if whole != "" {
		t.Errorf("the shell does not take\n%s", whole)
	}
	return all
}

// parse lets a shell run commands of a page in which weir only records its arguments and nothing else runs, and parses
// these. whole commands must have all operands, which may be missing in sentences. It returns how often weir was
// called.
func parse(t *testing.T, page, commands string, whole bool) int {
	t.Helper()
	dir := t.TempDir()
	testcheck.NoError(t, os.Mkdir(filepath.Join(dir, "weir"), 0o700)) // as git clone creates it
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
