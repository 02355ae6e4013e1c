package firehose_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping/envelope/firehose"
	"github.com/weirsync/weir/internal/source"
)

// TestInit: the first line requests one version of the messages, and the server of a replayed feed accepts it.
func TestInit(t *testing.T) {
	pattern := regexp.MustCompile(firehose.InitPattern)
	for _, compression := range []string{"", source.Gzip, source.Zlib, source.Deflate} {
		for _, events := range []string{"", "flifo position"} {
			line := firehose.Init(compression, events)
			line = strings.NewReplacer(`{{if .resume}}pitr {{.resume}}{{else}}live{{end}}`, "pitr 1589549400", `{{env "FH_USERNAME"}}`, "me", `{{env "FH_APIKEY"}}`, "secret").Replace(line)
			if !pattern.MatchString(line) || !strings.Contains(line, " version "+firehose.Version+" ") {
				t.Errorf("%s", line)
			}
		}
	}
}
