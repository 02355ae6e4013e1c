package postgres

import (
	"fmt"
	"strings"
)

// separately are the statements that take the place of a MERGE. New rows come first, in the order of their keys: who waits there for
// another writer's row holds no lock on a row that exists. Then the rows that are to change are locked
// in that order.
func (u *upsert) separately() (all []statement) {
	set, differs := u.assignments()
	// A row that was just inserted may be another than the staged one: then it is
	// marked, and left alone.
	marked := set != nil && (u.table.triggers || (u.acts.replaces || u.acts.resets) && u.defaults())
	all = u.insert(marked)
	lives := u.lives()
	if marked {
		lives = and(lives, "s.op IS DISTINCT FROM 'i'")
	}
	var touched []string
	if set != nil {
		touched = append(touched, and(lives, "(t.ctid IS NULL OR "+differs+")"))
	}
	if u.acts.deletes > 0 {
		touched = append(touched, "s.op = 'd' AND t.ctid IS NOT NULL")
	}
	if len(touched) == 0 {
		return all
	}
	all = append(all, u.lock("("+strings.Join(touched, " OR ")+")")...)
	if set != nil {
		// A row that was just locked shows it, unless others share the lock: that
		// saves comparing it a second time. If a table has constraints, the check of a
		// foreign key may have locked it too.
		if !u.table.HasConstraints {
			differs = "(t.xmax = pg_current_xact_id()::xid OR " + differs + ")"
		}
		// Unless the lock found a row, the rest is not even looked at.
		all = append(all, statement{tally: updated, sql: fmt.Sprintf("UPDATE %s t\n  SET %s\nFROM %s s\nWHERE %s", u.table.ident, u.setList(set), u.stage,
			and("current_setting('weir.touched') <> '0'", u.on(), lives, u.asFound(hasState), differs))})
	}
	if u.acts.deletes > 0 && u.alone {
		all = append(all, u.delete())
	}
	return all
}

// insert inserts the rows that are missing; they are counted by their marks if they are to be marked.
func (u *upsert) insert(marked bool) []statement {
	into, values := u.inserted()
	key := make([]string, len(u.table.Key))
	for i, k := range u.table.Key {
		key[i] = ident(u.table.Columns[k].Name)
	}
	keys := strings.Join(key, ", ")
	insert := fmt.Sprintf("INSERT INTO %s (%s)\nSELECT %s\nFROM %s s\nWHERE %s\nORDER BY s.n", u.table.ident, strings.Join(into, ", "), strings.Join(values, ", "), u.stage,
		and(u.lives(), fmt.Sprintf("NOT EXISTS (SELECT FROM %s t WHERE %s)", u.table.ident, u.on())))
	passing := insert + "\nON CONFLICT (" + keys + ") DO NOTHING"
	if marked {
		passing = fmt.Sprintf("WITH t AS (%s\nRETURNING %s)\nUPDATE %s s SET op = 'i' FROM t WHERE %s", passing, keys, u.stage, u.on())
	}
	all := []statement{{sql: passing, tally: inserted}}
	if u.table.hides {
		// A row that others made in the meantime is seen by now. What is not, a policy
		// hides: then this is refused.
		all = append(all, statement{sql: insert})
	}
	return all
}

// delete deletes the rows that staged ones delete.
func (u *upsert) delete() statement {
	return statement{tally: deleted, sql: fmt.Sprintf("DELETE FROM %s t\nUSING %s s\nWHERE %s", u.table.ident, u.stage, and(u.asFound(hasState), u.on(), "s.op = 'd'"))}
}

// lock locks the table's rows that staged ones touch, and demands that it lock
// all of them. A row that another session deletes or gives another key, after the INSERT
// saw it or while its lock is waited for, cannot be locked, even if that session
// makes a new one of its key: then the flush is sent again. If a trigger or a policy
// may keep rows away for good, it is sent again once.
func (u *upsert) lock(touched string) []statement {
	strength := "NO KEY UPDATE"
	if u.acts.deletes > 0 {
		strength = "UPDATE"
	}
	key := make([]string, len(u.table.Key))
	for i, k := range u.table.Key {
		key[i] = fmt.Sprintf("s.c%d", k)
	}
	if u.guarded {
		key = append(key, "s.found", hasState+" AS sure")
	}
	// A table that the flush makes has no schema before its name, which may be any but weir's own.
	all := []statement{{sql: fmt.Sprintf(`WITH weir_touched AS MATERIALIZED (
  SELECT s.n, %s
  FROM %s s LEFT JOIN %s t ON %s
  WHERE %s)
SELECT set_config('weir.touched', x.n::text, true), set_config('weir.gone', (x.n < y.n)::text, true)
FROM (SELECT count(*) n FROM (SELECT FROM weir_touched s JOIN %[3]s t ON %[6]s ORDER BY s.n FOR %[7]s OF t) l) x,
  (SELECT count(*) n FROM weir_touched) y`,
		strings.Join(key, ", "), u.stage, u.table.ident, u.on(), touched, and(u.asFound("s.sure"), u.on()), strength)}}
	if !u.again || !(u.table.triggers || u.table.policed) {
		all = append(all, demand(errGone, "current_setting('weir.gone') = 'false'"))
	}
	return all
}
