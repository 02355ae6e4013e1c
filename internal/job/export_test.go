package job

import "github.com/weirsync/weir/internal/source"

// SetSource has a run read sources in place of those that it names.
func (c *Config) SetSource(of func(names []string) source.Source) {
	c.newSource = func(names []string, _ source.Options) source.Source { return of(names) }
}
