package settings

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/source"
)

// ownFlags are omitted from the suggested command, because a second run at the same time needs other values, or none.
var ownFlags = []string{"config", "job", "accept-settings", "restart", "spool-max", "until-end"}

// unsetFlags are omitted too, unless the config file or a variable would set them. Then the suggested command sets
// these values.
var unsetFlags = map[string]string{"follow": "false", "spool": "", "capture": "", "metrics-addr": "", "metrics-file": "", "group": "", "group-instance": ""}

// backfill returns a function that returns the command, to paste into a shell, that fills tables of the config file
// from the run's sources.
func (s *Spec) backfill(job string, sources []string) func(tables []string) string {
	return func(tables []string) string {
		args := s.args
		if IsKafka(sources) {
			args = append(slices.Clone(args), "--until-end")
		} else if slices.ContainsFunc(sources, func(name string) bool { return s.env.sources().Type(name) != source.File }) {
			if args = []string{"FILE..."}; s.Spool.Capture != "" {
				args = []string{filepath.Join(s.Spool.Capture, "*")}
			}
		}
		words := append([]string{"weir", "sync", "--config", s.File}, args...)
		for _, one := range s.settings {
			if value, unset := unsetFlags[one.Name]; unset && (one.overruled || one.from == byFile || one.from == byVariable) {
				words = append(words, "--"+one.Name+"="+value)
			} else if !unset && !slices.Contains(ownFlags, one.Name) {
				words = append(words, one.flagWords()...)
			}
		}
		return command(append(words, "--tables", strings.Join(tables, ","), "--job", job+"-"+strings.Join(tables, "-")))
	}
}

// again returns the command of this run with one more flag, to paste into a shell.
func (s *Spec) again(flag ...string) string {
	words := append([]string{"weir", "sync"}, s.args...)
	for _, one := range s.settings {
		if one.Name != "restart" && one.Name != "accept-settings" {
			words = append(words, one.flagWords()...)
		}
	}
	return command(append(words, flag...))
}

// showRejects returns the command that prints the rejected lines of this run.
func (s *Spec) showRejects() string {
	to, file, job := s.Setting("to"), s.Setting("config"), s.Setting("job")
	if to.IsFlag() {
		file = to
	}
	return command(slices.Concat([]string{"weir", "rejects"}, file.flagWords(), job.flagWords()))
}

// flagWords returns the command-line words that set a setting to its value in this run; none if no flag set it.
func (s *Setting) flagWords() (words []string) {
	if s.IsFlag() && s.Type() == "bool" {
		return []string{"--" + s.Name + "=" + s.String()}
	}
	for _, text := range s.written {
		words = append(words, "--"+s.Name, s.shown(text))
	}
	return words
}

// command joins words for a shell.
func command(words []string) string {
	for i := range words {
		words[i] = Quoted(words[i])
	}
	return strings.Join(words, " ")
}

// Quoted quotes a word for a shell.
func Quoted(word string) string {
	if word == "" || strings.ContainsAny(word, " ?&*'\"$;<>|()`\\#~!{}[]\t\n") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
