package job

import "github.com/weirsync/weir/internal/source"

// SetSource has a run read a source in place of those that it names.
func (c *Config) SetSource(s source.Source) {
	c.newSource = func([]string, source.Options) source.Source { return s }
}
