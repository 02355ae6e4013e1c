package settings

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/kafka"
	"github.com/weirsync/weir/internal/source/tcp"
)

// Env is what a spec needs from its process: drivers, source kinds, variables, stdin, log.
type Env struct {
	// Drivers are the supported databases. The last driver that accepts --to is used; the first one accepts every path.
	Drivers []sink.Driver
	// FileOnly checks a config file without environment variables. A missing database or missing sources are then no
	// errors.
	FileOnly bool
	Lookup   func(string) (string, bool) // returns an environment variable
	Environ  []string                    // as [os.Environ] returns it
	Stdin    io.Reader
	// Asks is true if stdin is a terminal.
	Asks bool
	Log  *slog.Logger
}

// KindOptions are the options of single kinds of sources.
type KindOptions struct {
	File  file.Options
	TCP   tcp.Options
	Kafka kafka.Options
}

// Kinds returns the supported kinds of sources with their options; tests add others. The first one handles paths and stdin.
var Kinds = func(o *KindOptions) source.Kinds {
	return source.Kinds{file.Kind(o.File), tcp.Dialed(o.TCP), tcp.Listening(o.TCP), kafka.Kind(o.Kafka)}
}

// Sources are the kinds of sources without options. They only classify sources.
var Sources = Kinds(&KindOptions{})

// databases returns the names of the drivers in a config file.
func (e *Env) databases() []string {
	names := make([]string, len(e.Drivers))
	for i, d := range e.Drivers {
		names[i] = strings.ToLower(d.Name)
	}
	return names
}

const envPrefix = "WEIR_"

// kubernetes matches the variables that a cluster sets in each container for a service whose name begins with "weir".
var kubernetes = regexp.MustCompile(`^WEIR_(.*_)?(SERVICE_HOST|SERVICE_PORT(_.*)?|PORT(_[0-9]+_[A-Z]+(_(PROTO|PORT|ADDR))?)?)$`)

// Load sets the settings that no flag has set, first from the environment, then from the file. It also reads the file's
// tables. The warnings name unknown variables. It must be called only once: it records its faults, and [Spec.Plan] and
// [Spec.Validate] return them again.
func (s *Spec) Load() (warnings []string, err error) {
	for _, variable := range s.env.Environ {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		i := slices.IndexFunc(s.settings, func(one *Setting) bool { return one.variable() == name })
		switch {
		case i >= 0:
			s.setVariable(s.settings[i], text)
		case !kubernetes.MatchString(name):
			names := make([]string, len(s.settings))
			for i, one := range s.settings {
				names[i] = one.variable()
			}
			warnings = append(warnings, fmt.Sprintf("%s is not a setting and is ignored%s", name, feed.DidYouMean(name, names)))
		}
	}
	if s.File != "" {
		if err := s.readFile(); err != nil {
			s.faults = append(s.faults, err)
		}
	}
	s.useDatabaseURL()
	return warnings, ordered(slices.Concat(s.textFaults(), s.faults))
}

// setVariable sets a setting from its variable.
func (s *Spec) setVariable(one *Setting, text string) {
	switch {
	case one.elsewhere != "" && one.Name != "config":
		s.faults = append(s.faults, fmt.Errorf("%s %s", one.variable(), one.elsewhere))
		return
	case one.IsFlag():
		return
	}
	one.from = byVariable
	one.parse(text)
}
