package settings

import "strings"

// showRejects returns the command that prints the rejected lines of this run.
func (s *Spec) showRejects() string {
	to, file, job := s.Setting("to"), s.Setting("config"), s.Setting("job")
	if to.IsFlag() {
		file = to
	}
	words := []string{"weir", "rejects"}
	for _, one := range []*Setting{file, job} {
		for _, text := range one.written {
			words = append(words, "--"+one.Name, Quoted(one.shown(text)))
		}
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
