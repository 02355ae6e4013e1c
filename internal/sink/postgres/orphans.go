package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink"
)

// dropOrphans drops some states whose rows something other than weir has deleted. It runs after the flush is committed,
// because nothing depends on it. If another session's lock is in the way, it tries again after the next flush.
func (a *attempt) dropOrphans(ctx context.Context) {
	for _, p := range a.parts {
		if p.plan == nil || p.b.Scope != fold.ColumnScope || time.Now().Before(p.t.orphans) {
			continue
		}
		err := p.dropOrphans(ctx)
		if err == nil {
			continue
		}
		if a.d.rollback(ctx) != nil {
			a.d.drop()
		}
		if refused := pgError(err); refused != nil && refused.Code != lockNotAvailable {
			p.t.orphans = time.Now().Add(time.Hour)
		}
		a.d.opt.Log.Debug(fmt.Sprintf("versions of deleted rows of %s stay: %v", p.t.ident, err))
	}
}

const (
	orphansAtOnce = 1000 // dropped by one statement
	// orphansWait limits the wait for a lock: the next flush waits as long.
	orphansWait = 10 * time.Millisecond
)

// dropOrphans handles one table. A state that remembers a delete becomes a tombstone.
func (p *part) dropOrphans(ctx context.Context) error {
	d := p.a.d
	r, err := d.query(ctx, fmt.Sprintf("SELECT value FROM %s.weir_meta WHERE name = %s", d.schema, literal(sink.OrphansMark(d.fullName(&p.t.relation)))))
	if err != nil {
		return err
	}
	var pass sink.Orphans
	for _, row := range r[0].rows {
		pass = sink.ReadOrphans(string(row[0]))
	}
	before := 0
	for most := pass.Next(len(p.rows), 0); most > 0; most = pass.Next(len(p.rows), before) {
		if err := p.dropSome(ctx, &pass, most); err != nil {
			return err
		}
		before += most
	}
	p.t.orphans = pass.Due
	return nil
}

// dropSome is one scan of dropOrphans, in its own transaction if there are states.
func (p *part) dropSome(ctx context.Context, pass *sink.Orphans, most int) error {
	d, name := p.a.d, p.a.d.fullName(&p.t.relation)
	table := literal(name)
	// The key's index covers all tables: states of others are scanned as well.
	r, err := d.query(ctx, fmt.Sprintf(`SELECT encode(key, 'hex'), CASE WHEN tbl = %s AND gone IS NULL THEN encode(state, 'hex') END, xmin FROM %s.weir_versions WHERE key >= '\x%x' ORDER BY key LIMIT %d`,
		table, d.schema, pass.After, most))
	if err != nil {
		return err
	}
	s := &script{}
	s.begin("off")
	s.add("SET LOCAL lock_timeout = %d", orphansWait.Milliseconds())
	s.lockAll(map[int64]bool{d.versionsLock(&p.t.relation): true})
	var last []byte
	var states [2][]string // without a delete, and with one
	key := p.stateKey()
	for _, row := range r[0].rows {
		if last, err = unhex(row[0]); err != nil {
			return err
		}
		state, err := unhex(row[1])
		if err != nil {
			return err
		}
		texts := fold.KeyTexts(&p.b.Table, last)
		if row[1] == nil || texts == nil {
			continue
		}
		deletes := 0
		if fold.RemembersDelete(state) {
			deletes = 1
		}
		states[deletes] = append(states[deletes], fmt.Sprintf(`('\x%x'::bytea, '%s'::xid, %s)`, last, row[2], key.literals(texts)))
	}
	var counts []int
	for deletes, verb := range []string{"DELETE FROM %s.weir_versions w USING %s", "UPDATE %s.weir_versions w SET gone = now() FROM %s"} {
		for some := range slices.Chunk(states[deletes], orphansAtOnce) {
			from := fmt.Sprintf("(VALUES %s) v(key, was%s)", strings.Join(some, ", "), key.names())
			counts = append(counts, s.add(verb+" WHERE w.tbl = %s AND w.key = v.key AND w.xmin = v.was AND NOT EXISTS (SELECT FROM %s t WHERE %s)", d.schema, from, table, p.t.ident, key.on))
		}
	}
	did, err := d.run(ctx, s)
	if err != nil {
		return err
	}
	dropped := 0
	for _, n := range counts {
		dropped += int(did[n].tag.RowsAffected())
	}
	pass.Record(most, len(r[0].rows), last, dropped)
	_, err = d.query(ctx, d.dialect().SetMark(sink.OrphansMark(name), pass.Mark()), "COMMIT")
	return err
}

// A stateKey has the parts of a row's key as in messages.
type stateKey struct {
	parts []keyPart
	on    string // the condition that the row t has the parts p0, p1, … of v
}

func (p *part) stateKey() (k stateKey) {
	t := &p.t.relation
	var all []string
	if o := p.newShape(p.b, nil).owner(); o != nil {
		k.parts = slices.Clone(o.key)
		all = append(all, fmt.Sprintf("t.%s = (%s)", ident(t.Columns[o.at].Name), o.finder(func(i int) string { return fmt.Sprintf("v.p%d", i) }).Find(o.To)))
	}
	for _, from := range p.b.Table.Key[len(k.parts):] {
		at := caps.Find(&t.Table, p.b.Table.Columns[from].Name, from)
		all = append(all, fmt.Sprintf("%s = v.p%d", t.column(at), len(k.parts)))
		k.parts = append(k.parts, keyPart{t, at})
	}
	k.on = strings.Join(all, " AND ")
	return k
}

// names returns the columns of v, with a comma before each.
func (k *stateKey) names() (sql string) {
	for i := range k.parts {
		sql += fmt.Sprintf(", p%d", i)
	}
	return sql
}

// literals returns SQL for a key's parts.
func (k *stateKey) literals(texts [][]byte) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = quote(string(text)) + "::" + k.parts[i].table.cols[k.parts[i].at].staged
	}
	return strings.Join(all, ", ")
}
