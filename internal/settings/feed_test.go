package settings

import (
	"testing"

	"github.com/weirsync/weir/internal/mapping/envelope/firehose"
)

// TestFeed_FirehoseHasItsPort: a feed without a port gets Firehose's default port; other sources are unchanged.
func TestFeed_FirehoseHasItsPort(t *testing.T) {
	for source, want := range map[string]string{
		"tls://firehose.example":    "tls://firehose.example:1501",
		"tls://firehose.example:99": "tls://firehose.example:99",
		"tls://[::1]":               "tls://[::1]:1501",
		"tls://[::1]:99":            "tls://[::1]:99",
		"kafka://broker/topic":      "kafka://broker/topic",
		"captured.jsonl":            "captured.jsonl",
		"-":                         "-",
	} {
		s, sources := New(around()), []string{source}
		s.Feed.Name = firehose.Name
		if s.builder().withPreset(sources); sources[0] != want {
			t.Errorf("%s: %s, want %s", source, sources[0], want)
		}
	}
}
