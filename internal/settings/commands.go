package settings

import (
	"slices"
	"strings"
)

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
