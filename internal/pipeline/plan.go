package pipeline

import (
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/mapping"
)

// Map sets the job's mapping, for tables of a database with the given limits. whole is the mapping that m was selected
// from, which decides what happens to a message, or nil if m is complete. The error joins a [mapping.Fault] for each
// thing that the database cannot store.
func (c *Config) Map(m, whole *mapping.Mapping, limits schema.Limits) (err error) {
	names := &feed.Names{}
	if c.plan, err = mapping.Compile(m, names, limits); err != nil {
		return err
	}
	if whole != nil {
		if c.whole, err = mapping.Compile(whole, names, limits); err != nil {
			return err
		}
	}
	c.Tables, c.Star = make([]Table, c.plan.Tables()), nil
	for i := range c.Tables {
		c.Tables[i] = tableOf(c.plan, i)
	}
	if star, options := c.plan.Star(); star != nil {
		c.Star = &Table{Table: star, Name: star.Name, Key: star.Key, Fold: options}
	}
	return nil
}

// IsPlain reports whether each line is a row of the only table.
func (c *Config) IsPlain() bool { return c.plan.IsPlain() }

func tableOf(p *mapping.Plan, i int) Table {
	t := p.Table(i)
	return Table{Table: t, Name: p.TableName(i), Key: p.StoredKey(i), Fold: p.Options(i)}
}
