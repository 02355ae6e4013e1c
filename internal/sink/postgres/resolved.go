package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// A resolved column refers to rows of another table by a key that the database generates. Messages name these rows by
// their own keys, which are staged in columns that the table does not have; the database looks up the generated keys.
// If the row is missing, a child row is not written, and any other reference is NULL.
type resolved struct {
	*schema.Ref
	at     int               // the table's column
	key    []keyPart         // the row's key as in messages
	tables map[string]string // the tables on the way to the row, in SQL
}

// A keyPart is a column of a key, as in its table.
type keyPart struct {
	table *relation
	at    int
}

// hiddenName returns the staging table's column for a column of the batch that the table does not have.
func hiddenName(from int) string { return fmt.Sprintf("h%d", from) }

// resolve adds the columns whose values the database looks up: the owner, and references that some row has.
func (s *shape) resolve(of *schema.Table, uses []use, current func(name string) *relation) {
	for i := range of.Refs {
		ref := &of.Refs[i]
		u := uses[ref.From[0]]
		at := caps.Find(&s.table.Table, of.Columns[ref.Column].Name, ref.Column)
		if !ref.Owner && (ref.From[0] == ref.Column || !u.named || at < 0) {
			continue
		}
		r := resolved{Ref: ref, at: at, tables: map[string]string{}}
		for l := ref.To; l != nil; l = l.Above {
			r.tables[l.Table] = current(l.Table).ident
		}
		for _, part := range ref.To.Parts() {
			t := current(part.In.Table)
			r.key = append(r.key, keyPart{t, caps.Find(&t.Table, part.Column, 0)})
		}
		if ref.Owner {
			u = use{}
		}
		s.add(at, ref.From[0], u, true)
		s.resolved = append(s.resolved, r)
	}
}

// owner returns how the rows refer to their parents; nil: by the parents' own keys.
func (s *shape) owner() *resolved {
	i := slices.IndexFunc(s.resolved, func(r resolved) bool { return r.Owner })
	if i < 0 {
		return nil
	}
	return &s.resolved[i]
}

// finder finds the rows by the parts of their keys, given as expressions.
func (r *resolved) finder(part func(i int) string) *sink.Finder {
	return &sink.Finder{Quote: ident,
		Table: func(name string) string { return r.tables[name] },
		Equal: func(_, column string, i int) string {
			return ident(column) + " = " + part(i)
		}}
}

// part returns a part of a staged row's key.
func (r *resolved) part(i int) string { return "s." + hiddenName(r.From[i]) }

// find returns a query for the generated key of the row that a staged row refers to.
func (r *resolved) find() string { return r.finder(r.part).Find(r.To) }

// resolutions returns the statements that fill in the generated keys of the rows that staged rows refer to.
func (s *shape) resolutions() (all []statement) {
	for i := range s.resolved {
		r := &s.resolved[i]
		column := fmt.Sprintf("c%d", r.at)
		find := fmt.Sprintf("UPDATE %s s SET %s = (%s)", s.stage, column, r.find())
		if !r.Owner {
			all = append(all, statement{sql: find + "\nWHERE " + r.part(0) + notNull})
			continue
		}
		missing := column + " IS NULL"
		if s.acts.sweeps > 0 {
			missing += " AND op IS DISTINCT FROM 's'"
		}
		all = append(all, statement{sql: find}, statement{sql: fmt.Sprintf("DELETE FROM %s WHERE %s", s.stage, missing)})
	}
	return all
}

// readReferred reads the tables to which rows of a batch refer, unless they are known.
func (d *DB) readReferred(ctx context.Context, of *schema.Table) error {
	for _, ref := range of.Refs {
		for l := ref.To; l != nil; l = l.Above {
			if d.tableOf(l.Table).Exists {
				continue
			}
			if _, err := sink.Table(ctx, d.Tables, l.Table, l.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// swept returns the condition that a row of the table belongs to a staged row that sweeps; join is what stands between
// the two.
func (s *shape) swept() (join, on string) {
	key, parents := s.table.Key, 0
	var all []string
	if o := s.owner(); o != nil {
		owner := "t." + ident(s.table.Columns[o.at].Name)
		if parents, key = len(o.From), key[1:]; s.acts.sweeps < parents {
			return fmt.Sprintf("\n  CROSS JOIN LATERAL (%s) o (id)", o.finder(o.part).FindAll(o.To, s.acts.sweeps)), owner + " = o.id"
		}
		all = append(all, fmt.Sprintf("%s = s.c%d", owner, o.at))
	}
	for _, k := range key[:s.acts.sweeps-parents] {
		all = append(all, fmt.Sprintf("%s = s.c%d", s.table.column(k), k))
	}
	return "", strings.Join(all, " AND ")
}
