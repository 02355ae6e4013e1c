package postgres

import (
	"context"
	"fmt"
	"time"
)

// This file is about tables of weir's whose flushes update most rows. A page that is filled by nine tenths has no room
// for their next versions: each lies in another page, and needs an entry in the key's index. With room, updates take 0.8
// of the server's CPU and half of its log (BenchmarkFlush_OfCopy/rewritten), and the table ends smaller, for it grows by
// the second versions in any case.

// fillFactorRewritten is the fill factor of such a table.
const fillFactorRewritten = 50

const (
	crowdedFrom = 2000 // updates of a flush; from there on it tells how a table is used
	// roomWait is how long a lock is waited for: the next flush waits as long, and after deadlock_timeout the
	// server would end an autovacuum that is in the way.
	roomWait = 10 * time.Millisecond
)

// crowded returns how many updates of a MERGE found no room in their pages, if it was most of many, else 0.
func crowded(updated, hot int64) int64 {
	if updated < crowdedFrom || hot >= updated/2 {
		return 0
	}
	return updated - hot
}

// makeRooms lowers the fill factors of the tables in which the flush found too little room, once it is committed:
// nothing depends on that. Where another session has a lock in the way, it is tried after the next such flush.
func (a *attempt) makeRooms(ctx context.Context) {
	for _, p := range a.parts {
		if p.merge == nil || p.merge.crowded == 0 || p.t.roomy || !p.t.Made {
			continue
		}
		p.t.crowded += p.merge.crowded
		later, err := a.d.makeRoom(ctx, &p.t.relation, p.t.crowded)
		refused := pgError(err)
		p.t.roomy = !later && err == nil || refused != nil && refused.Code != "55P03"
		if err != nil {
			a.d.opt.Log.Debug(fmt.Sprintf("the fill factor of %s stays as it is: %v", p.t.ident, err))
		}
	}
}

// makeRoom lowers a table's fill factor, later where so far less than half of its rows were updated: the others may never
// be. It leaves a fill factor that is another one than tables get that weir makes, and another role's table. Where
// somebody has made an index, its columns may be what updates need new entries for.
func (d *DB) makeRoom(ctx context.Context, t *relation, updated int64) (later bool, err error) {
	indexes := 1
	for _, c := range t.Columns {
		if c.Serial && !c.Key {
			indexes++
		}
	}
	r, err := d.query(ctx, "BEGIN ISOLATION LEVEL READ COMMITTED", "SET LOCAL synchronous_commit = off",
		fmt.Sprintf("SET LOCAL lock_timeout = %d", roomWait.Milliseconds()),
		"LOCK TABLE "+t.ident+" IN SHARE UPDATE EXCLUSIVE MODE", // others write meanwhile
		fmt.Sprintf("SELECT reltuples > %d FROM pg_class c WHERE oid = %s::regclass AND relkind = 'r' AND NOT relhassubclass AND reloptions @> '{fillfactor=%d}' AND pg_has_role(relowner, 'USAGE')"+
			" AND (SELECT count(*) FROM pg_index WHERE indrelid = c.oid) = %d", 2*updated, quote(t.ident), fillFactor, indexes))
	ours := err == nil && len(r[4].rows) > 0
	if later = ours && string(r[4].rows[0][0]) == "t"; ours && !later {
		_, err = d.query(ctx, fmt.Sprintf("ALTER TABLE %s SET (fillfactor = %d)", t.ident, fillFactorRewritten), "COMMIT")
	}
	if d.rollback(ctx) != nil {
		d.drop()
	}
	return later, err
}
