package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
)

// This file is about rows that name those that they belong to by a key that the database generates.
// They are staged with the key that messages have, in columns that their table does not have.

// An ownership is how the rows of a merge name those that they belong to.
type ownership struct {
	*schema.Ref
	at    int         // the table's column
	parts []ownerPart // of the key of a row above, as messages have it
}

// An ownerPart is a part of such a key, as a table above has it.
type ownerPart struct {
	table *relation
	at    int
}

// current is a table as the flush at hand makes it.
func (d *DB) current(name string) *relation {
	t := d.known(name)
	if t.next != nil {
		return t.next
	}
	return &t.relation
}

func (m *merge) newOwnership() *ownership {
	ref := m.b.Table.Owner()
	if ref == nil {
		return nil
	}
	o := &ownership{Ref: ref, at: caps.Find(&m.table.Table, m.b.Table.Columns[ref.Column].Name, ref.Column)}
	m.used = append(m.used, staged{at: o.at, from: ref.Column, null: -1, initial: -1, found: true})
	for _, part := range ref.To.Parts() {
		t := m.d.current(part.In.Table)
		o.parts = append(o.parts, ownerPart{t, caps.Find(&t.Table, part.Column, 0)})
	}
	return o
}

// hiddenName is the column of the staging table with a column of the batch that the table does not
// have.
func hiddenName(from int) string { return fmt.Sprintf("h%d", from) }

// hidden are the types of these columns.
func (m *merge) hidden() map[int]string {
	types := map[int]string{}
	if m.owner != nil {
		for i, p := range m.owner.parts {
			types[m.owner.From[i]] = p.table.cols[p.at].staged
		}
	}
	for _, r := range m.refs {
		types[r.From[0]] = r.to.cols[r.key].staged
	}
	return types
}

// appendHidden appends the values of a row in these columns.
func (m *merge) appendHidden(line []byte, r *fold.Row) []byte {
	for i, p := range m.owner.parts {
		line = append(line, '\t')
		if raw := m.b.Value(r, m.owner.From[i]); raw == nil { // of a row that sweeps
			line = append(line, '\\', 'N')
		} else {
			line = m.value(line, raw, p.table.Columns[p.at].Type)
		}
	}
	return line
}

// finder finds rows above by the parts of their keys, which are expressions.
func (m *merge) finder(part func(i int) string) *sink.Finder {
	return &sink.Finder{Quote: ident,
		Table: func(name string) string { return m.d.current(name).ident },
		Equal: func(_, column string, i int) string {
			p := &m.owner.parts[i]
			return p.table.comparable(p.at, ident(column)) + " = " + part(i)
		}}
}

// stagedPart is a part of the key of a row above as a staged row has it.
func (m *merge) stagedPart(i int) string { return "s." + hiddenName(m.owner.From[i]) }

// findOwners adds what finds the rows above. A row exists only with that it belongs to.
func (m *merge) findOwners(s *script) {
	if m.owner == nil {
		return
	}
	m.inOrder = false
	s.add("UPDATE %s s SET c%d = (%s)", m.t.stageName(), m.owner.at, m.finder(m.stagedPart).Find(m.owner.To))
	lives := ""
	if m.sweeps {
		lives = " AND op IS DISTINCT FROM 's'"
	}
	s.add("DELETE FROM %s WHERE c%d IS NULL%s", m.t.stageName(), m.owner.at, lives)
}

// belongs is the condition that a row of the table belongs to a staged one that sweeps, of which the
// first has the same columns; join is what stands between the two.
func (m *merge) belongs(first *fold.Row) (join, on string) {
	named := 0
	for _, k := range m.b.Table.Key {
		if m.b.Value(first, k) != nil {
			named++
		}
	}
	key, above := m.table.Key, 0
	var all []string
	if o := m.owner; o != nil {
		owner := "t." + ident(m.table.Columns[o.at].Name)
		if above, key = len(o.From), key[1:]; named < above {
			return fmt.Sprintf(" CROSS JOIN LATERAL (%s) o (id)", m.finder(m.stagedPart).FindAll(o.To, named)), owner + " = o.id"
		}
		all = append(all, fmt.Sprintf("%s = s.c%d", owner, o.at))
	}
	for _, k := range key[:named-above] {
		all = append(all, fmt.Sprintf("%s = s.c%d", m.table.compared(k), k))
	}
	return "", strings.Join(all, " AND ")
}

// readAbove reads the tables that rows of a batch are named by, where they are not known.
func (d *DB) readAbove(ctx context.Context, b *fold.Batch) error {
	for _, ref := range b.Table.Refs {
		for l := ref.To; l != nil; l = l.Above {
			if d.known(l.Table).Exists {
				continue
			}
			if _, err := sink.Table(ctx, d.Tables, l.Table, l.Key); err != nil {
				return err
			}
		}
	}
	return nil
}
