package postgres

import (
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/schema"
)

// This file is about the states of rows that the connection wrote last: they are remembered with the transaction
// that wrote them, and the database is not asked for them again. Where one is no longer the row's, or the row is
// missing, the flush ends before anything is committed, all is forgotten, and the flush looks for what the database has.
// That saves a third of the server's CPU where the same rows change again and again (BenchmarkVersions).

const (
	// maxRemembered is how many bytes the states may take, of which each row has rememberedSize beside its key and state.
	maxRemembered  = 16 << 20
	rememberedSize = 150
	// notRemembered is how many flushes ask for all states after one that was wrong: there seem to be other writers.
	notRemembered = 50
)

// memory holds the states of the rows that a connection wrote last.
type memory struct {
	conn   *pgconn.PgConn // the connection; another one may lead to another server, or to one that was restored
	states map[rowName]*remembered
	size   int
	xid    uint64 // of the last transaction that wrote some
	rest   int    // for how many flushes nothing is remembered
}

// A rowName is the number of a table, and a key.
type rowName struct {
	table int
	key   string
}

// remembered is the state of a row, and the transaction that wrote it.
type remembered struct {
	state []byte
	xid   uint64
}

// forget forgets all states, and remembers none for some flushes.
func (m *memory) forget(rest int) { *m = memory{rest: max(m.rest, rest)} }

// find returns what is remembered of a row; nil: nothing is.
func (m *memory) find(table int, key []byte) *remembered {
	r := m.states[rowName{table, string(key)}]
	if r != nil && m.xid-r.xid >= 1<<31 { // its 32 bits are about to be another transaction's
		return nil
	}
	return r
}

// put remembers the state of a row, in place of those of some others where there are too many.
func (m *memory) put(table int, key, state []byte) {
	r := m.states[rowName{table, string(key)}]
	if r == nil {
		r = &remembered{}
		m.states[rowName{table, string(key)}] = r
		m.size += rememberedSize + len(key)
	}
	was := cap(r.state)
	r.state, r.xid = append(r.state[:0], state...), m.xid
	m.size += cap(r.state) - was
	if m.size <= maxRemembered {
		return
	}
	for name := range m.states { // in no order; to begin takes as long as many steps
		if m.size <= maxRemembered*7/8 {
			break
		}
		m.drop(name)
	}
}

// drop forgets the state of a row.
func (m *memory) drop(name rowName) {
	if r := m.states[name]; r != nil {
		delete(m.states, name)
		m.size -= rememberedSize + len(name.key) + cap(r.state)
	}
}

// mayKnow reports whether some rows of the part need not be looked for. A flush that is alone does not compare
// states; and where other tables' rows go with deleted ones it always is, as their look counts on all rows being staged.
func (p *part) mayKnow() bool { return p.b.Child == nil && !p.alone() && !p.separates() }

// remembers reports whether the states of the rows that the part writes are remembered. Behind a pooler nobody
// notices that another server takes the place of the one that has written them.
func (p *part) remembers() bool {
	return p.b.Scope == fold.ColumnScope && !p.a.d.pooled && p.a.d.memory.rest == 0 && p.mayKnow()
}

// compares reports whether the MERGE can compare the versions of rows, in the order that weir has: those of whole numbers.
// Of a row that has rows of other tables as values it has to be known before whether it is written, with them.
func (p *part) compares() bool {
	if p.b.Scope != fold.RowScope || p.b.Version < 0 || !p.mayKnow() || p.hasSets() {
		return false
	}
	at := versionAt(p.b, &p.after)
	return at >= 0 && p.b.Table.Columns[p.b.Version].Type == schema.Int && p.after.Columns[at].Type == schema.Int && !p.after.Columns[at].Generated
}

// versionAt is the column of a table that has the versions of its rows; below 0: none has.
func versionAt(b *fold.Batch, t *relation) int {
	return caps.Find(&t.Table, b.Table.Columns[b.Version].Name, b.Version)
}

// recall finds the rows that need not be looked for: those whose versions the MERGE compares, and those whose states are
// remembered and surely change: then writing them shows whether the database has what is remembered.
func (p *part) recall() {
	p.stored, p.unknown = make([]storedRow, len(p.writes)), nil
	m := &p.a.d.memory
	known, compares := p.remembers() && m.conn == p.a.d.conn, p.compares()
	for i, r := range p.writes {
		s := &p.stored[i]
		s.row = r
		if s.known = compares && p.b.IsWhole(r); s.known {
			continue
		}
		if known {
			if was := m.find(p.t.n, r.Key); was != nil && p.b.Renews(r, was.state) {
				s.known, s.was = true, fold.Stored{Exists: true, State: was.state}
				s.state = strconv.AppendUint(nil, uint64(uint32(was.xid)), 10)
				continue
			}
		}
		p.unknown = append(p.unknown, i)
	}
}

// recalled reports whether rows are written whose states were remembered.
func (a *attempt) recalled() bool {
	return slices.ContainsFunc(a.parts, func(p *part) bool { return p.merge != nil && p.merge.versions != nil && p.merge.versions.recalled })
}

// remember remembers the states that were written, given the answer to the script. What is remembered of the others that
// were written is no longer so.
func (a *attempt) remember(r []result) {
	m := &a.d.memory
	m.rest = max(m.rest-1, 0)
	if m.conn != a.d.conn || m.states == nil {
		m.forget(0)
		m.conn, m.states = a.d.conn, map[rowName]*remembered{}
	}
	for _, p := range a.parts {
		if p.merge == nil || p.merge.versions == nil {
			continue
		}
		v := p.merge.versions
		if v.xid >= 0 {
			m.xid = uint64(number(r[v.xid].rows[0][0]))
		} else if len(m.states) == 0 {
			continue
		}
		for n, row := range p.newer {
			switch state := v.states[n]; {
			case state == nil:
			case v.xid < 0:
				m.drop(rowName{p.t.n, string(row.Key)})
			default:
				m.put(p.t.n, row.Key, state)
			}
		}
	}
}
