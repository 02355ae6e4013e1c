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
var unsetFlags = map[string]string{"follow": "false", "spool": "", "capture": "", "keep-captures": forever, "metrics-addr": "", "metrics-file": "", "group": "", "group-instance": ""}

// backfill returns a function that returns the command, to paste into a shell, that fills tables of the config file
// from the run's sources.
func (s *Spec) backfill(job string, sources []string) func(tables []string) string {
	return func(tables []string) string {
		args := s.args
		words := []string{"weir", "sync", "--config", s.File}
		if IsKafka(sources) {
			args = append(slices.Clone(args), "--until-end")
		} else if slices.ContainsFunc(sources, func(name string) bool { return s.env.sources().Type(name) != source.File }) {
			if args = []string{"FILE..."}; s.Spool.Capture != "" {
				args = []string{filepath.Join(s.Spool.Capture, "*")}
			}
		}
		words = append(words, args...)
		for _, one := range s.settings {
			name := one.Name
			value, unset := unsetFlags[name]
			switch {
			case unset && (one.overruled || one.from == byFile || one.from == byVariable):
				words = append(words, "--"+name+"="+value)
			case unset || slices.Contains(ownFlags, name) || !one.IsFlag():
			default:
				words = append(words, one.flagWords()...)
			}
		}
		words = append(words, "--tables", strings.Join(tables, ","), "--job", job+"-"+strings.Join(tables, "-"))
		for i := range words {
			words[i] = Quoted(words[i])
		}
		return strings.Join(words, " ")
	}
}

// again returns the command of this run with one more flag, to paste into a shell.
func (s *Spec) again(flag ...string) string {
	words := append([]string{"weir", "sync"}, s.args...)
	for _, one := range s.settings {
		if one.IsFlag() && one.Name != "restart" && one.Name != "accept-settings" {
			words = append(words, one.flagWords()...)
		}
	}
	words = append(words, flag...)
	for i := range words {
		words[i] = Quoted(words[i])
	}
	return strings.Join(words, " ")
}

// flagWords returns the command-line words that set a setting to its value in this run.
func (s *Setting) flagWords() (words []string) {
	if s.Type() == "bool" {
		return []string{"--" + s.Name + "=" + s.String()}
	}
	for _, text := range s.written {
		words = append(words, "--"+s.Name, s.shown(text))
	}
	return words
}

// Quoted quotes a word for a shell.
func Quoted(word string) string {
	if word == "" || strings.ContainsAny(word, " ?&*'\"$;<>|()`\\#~!{}[]\t\n") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// showRejects returns the command that prints the rejected lines of this run.
func (s *Spec) showRejects() string {
	words := []string{"weir", "rejects"}
	switch {
	case s.Setting("to").IsFlag():
		words = append(words, "--to", Redacted(s.Table.To))
	case s.Setting("config").IsFlag():
		words = append(words, "--config", s.File)
	}
	if s.Setting("job").IsFlag() {
		words = append(words, "--job", s.Source.Job)
	}
	for i := range words {
		words[i] = Quoted(words[i])
	}
	return strings.Join(words, " ")
}
