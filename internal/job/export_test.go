package job

import (
	"context"

	"github.com/weirsync/weir/internal/source"
)

// SetSource has a run read sources in place of those that it names.
func (c *Config) SetSource(of func(names []string) source.Source) {
	c.Kind.Open = func(_ context.Context, names []string, _ source.Options) (source.Source, error) {
		return of(names), nil
	}
}
