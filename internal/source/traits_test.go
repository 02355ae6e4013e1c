package source_test

import (
	"testing"

	"github.com/weirsync/weir/internal/source"
)

func TestTraitsOf(t *testing.T) {
	for spec, want := range map[string]source.Traits{
		"-":                    {Rewindable: true},
		"/dev/stdin":           {Rewindable: true},
		source.StdinName:       {Rewindable: true},
		"feed.jsonl":           {Rewindable: true, Named: true},
		"/var/tcp":             {Rewindable: true, Named: true},
		"tcp://host:1":         {Live: true, Named: true, Dialed: true},
		"tls://host:1":         {Live: true, Named: true, Dialed: true},
		"kafka://b/t":          {Live: true, Rewindable: true, Named: true, Records: true},
		"kafka+tls://b/t":      {Live: true, Rewindable: true, Named: true, Records: true},
		"kafka://C/t/7":        {Live: true, Rewindable: true, Named: true, Records: true},
		"tcp-listen://:1":      {Live: true, Named: true},
		"tls-listen://[::1]:1": {Live: true, Named: true},
	} {
		if got := source.TraitsOf(spec); got != want {
			t.Errorf("%s: %+v, want %+v", spec, got, want)
		}
	}
}
