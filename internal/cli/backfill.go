package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/config"
)

// ownFlags are of the run at hand alone: another one beside it has others, or none.
var ownFlags = []string{"config", "job", "accept-settings", "restart", "follow", "spool", "spool-max", "capture", "keep-captures", "metrics-addr", "metrics-file"}

// backfill returns the command that fills tables of the config file from the sources of a run, as
// people can paste it.
func (o *syncOptions) backfill(job string, sources []string) func(tables []string) string {
	return func(tables []string) string {
		args := o.args
		words := []string{"weir", "sync", "--config", o.config}
		if slices.ContainsFunc(sources, func(s string) bool { return !sourceKinds.Traits(s).Stored() }) {
			if args = []string{"FILE..."}; o.capture != "" {
				args = []string{filepath.Join(o.capture, "*")}
			}
		}
		words = append(words, args...)
		for _, s := range o.resolved {
			given := s.Origin == "flag --"+s.Name
			switch {
			case given && !slices.Contains(ownFlags, s.Name) && s.Kind == "bool":
				words = append(words, "--"+s.Name+"="+s.Value())
			case given && !slices.Contains(ownFlags, s.Name):
				words = append(words, "--"+s.Name, strings.Trim(s.Value(), "[]"))
			case given || s.Origin == config.Default: // it is left out, or not said
			case s.Name == "spool" || s.Name == "capture" || s.Name == "metrics-addr" || s.Name == "metrics-file":
				words = append(words, "--"+s.Name+"=")
			case s.Name == "follow":
				words = append(words, "--follow=false")
			case s.Name == "keep-captures":
				words = append(words, "--keep-captures=forever")
			}
		}
		words = append(words, "--tables", strings.Join(tables, ","), "--job", job+"-"+strings.Join(tables, "-"))
		for i := range words {
			words[i] = quoted(words[i])
		}
		return strings.Join(words, " ")
	}
}

// quoted is a word of a command as a shell reads it.
func quoted(word string) string {
	if strings.ContainsAny(word, " ?&*'\"$;<>|()`\\#~!{}[]\t\n") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}
