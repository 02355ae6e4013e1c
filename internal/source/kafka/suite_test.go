package kafka

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/sourcetest"
	"github.com/weirsync/weir/internal/testkafka"
)

// TestSuite: partitions that are read by their numbers pass the suite.
func TestSuite(t *testing.T) {
	sourcetest.Test(t, func(t *testing.T, lines ...string) sourcetest.Feed {
		c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
		c.Produce("t", 0, lines...)
		return sourcetest.Feed{Spec: "kafka://" + c.Addr() + "/t", Kind: func() source.Kind { return Kind(Options{Partitions: []int32{0}}) }}
	})
}
