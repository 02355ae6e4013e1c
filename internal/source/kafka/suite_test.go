package kafka

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/sourcetest"
	"github.com/weirsync/weir/internal/test/testkafka"
)

// TestSuite: partitions pass the suite, by their numbers and as a group assigns them.
func TestSuite(t *testing.T) {
	feed := func(kind func() source.Kind) sourcetest.New {
		return func(t *testing.T, lines ...string) sourcetest.Feed {
			c := testkafka.Start(t, kfake.SeedTopics(1, "t"))
			c.Produce("t", 0, lines...)
			return sourcetest.Feed{Spec: "kafka://" + c.Addr() + "/t", Kind: kind}
		}
	}
	t.Run("partitions", func(t *testing.T) {
		sourcetest.Test(t, feed(func() source.Kind { return Kind(Options{Partitions: []int32{0}}) }))
	})
	t.Run("group", func(t *testing.T) {
		sourcetest.Test(t, feed(func() source.Kind {
			kind := Kind(Options{Group: "g"})
			open := kind.Open
			kind.Open = func(ctx context.Context, names []string, o source.Options) (source.Source, error) {
				s, err := open(ctx, names, o)
				if err == nil {
					_, err = s.(source.Member).Join(ctx, source.Group{Database: "d", Known: func(string) bool { return false }})
				}
				return s, err
			}
			return kind
		}))
	})
}
