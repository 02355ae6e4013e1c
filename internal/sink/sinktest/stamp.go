package sinktest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/fold/schema"
	"github.com/weirsync/weir/internal/sink"
)

// stamps gives a table a stamp of each kind.
func stamps(l *schema.Limits, t *schema.Table) error {
	return errors.Join(l.AddStamp(t, "made", schema.InsertStamp), l.AddStamp(t, "moved", schema.UpdateStamp))
}

// onCreate returns a change that runs statements when a table is created.
func onCreate(sql ...string) func(*schema.Limits, *schema.Table) error {
	return func(_ *schema.Limits, t *schema.Table) error {
		t.OnCreate = sql
		return nil
	}
}

// at returns a time of the suite's flushes, by its minute.
func at(minute int) time.Time { return time.Date(2020, 5, 15, 13, minute, 0, 123e6, time.UTC) }

// stampsAre compares a table's id, made and moved with lines such as "1|00|05": minutes, or NULL.
func stampsAre(t *testing.T, db Database, want ...string) {
	t.Helper()
	const minute = "substr(CAST(%s AS TEXT), 15, 2)"
	Expect(t, db, "SELECT id, "+strings.ReplaceAll(minute, "%s", "made")+", "+strings.ReplaceAll(minute, "%s", "moved")+" FROM t ORDER BY id", want...)
}

// stampTests: a stamp is the time of the flush that created its row or changed something else in it.
var stampTests = []test{
	{"ManyNewRowsAreStamped", func(t *testing.T, db Database) {
		r := Setup{Fit: stamps}.Begin(t, db)
		for n := range 3 { // by the fast path for all-new rows, and then with some existing ones
			r.At(at(n)).Flush(numbered(n*20, n*20+20)...)
		}
		r.At(at(3))
		Counts(t, r.Flush(append(numbered(60, 80), numbered(0, 40)...)...), 20, 0, 40, 0)
		Expect(t, db, "SELECT count(*), count(DISTINCT made), count(DISTINCT moved) FROM t WHERE made = moved", "80|4|4")
	}},
	{"AddedToATableThatWeirMade", func(t *testing.T, db Database) {
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`, `{"id":2,"a":"x"}`)
		r.End()
		r = Setup{Fit: stamps}.Begin(t, db).At(at(1))
		Counts(t, r.Flush(`{"id":1,"a":"x"}`), 0, 0, 1, 0)
		stampsAre(t, db, "1|01|01", "2|01|01") // they do not count as the oldest
		r.At(at(2)).Flush(`{"id":1,"a":"y"}`, `{"id":3}`)
		stampsAre(t, db, "1|01|02", "2|01|01", "3|02|02")
		if got := r.known(0); !got.Made || got.HasConstraints {
			t.Errorf("the table is no longer only weir's: %+v", got)
		}
	}},
	{"AColumnThatCannotHoldATimeIsAnError", func(t *testing.T, db Database) {
		for definition, want := range map[string]string{
			"made INTEGER, moved TEXT": `column "made" of table "t" is `,
			"moved TEXT":               `table "t" has no column "made" for the time of a flush`,
		} {
			theirs(t, db, "CREATE TABLE t (id INTEGER PRIMARY KEY, "+definition+")")
			r := Setup{Fit: stamps}.open(t, db)
			if err := r.read(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", definition, err)
			}
			r.End()
			db.Exec(t, "DROP TABLE t")
		}
	}},
}

// numbered returns lines of rows.
func numbered(from, to int) (lines []string) {
	for n := from; n < to; n++ {
		lines = append(lines, `{"id":"`+at(n%60).Format("04")+"-"+string(rune('a'+n/60))+`","a":"x"}`)
	}
	return lines
}

// onCreateTests: the user's SQL in the transaction that creates a table.
var onCreateTests = []test{
	{"RunsOnce", func(t *testing.T, db Database) {
		d := onCreate("CREATE INDEX by_a ON t (id); CREATE TABLE log (what TEXT)", "INSERT INTO log VALUES ('it''s; \"made\"')")
		r := Setup{Fit: d}.Begin(t, db)
		r.Flush(`not json`)
		r.Flush(`{"id":1,"a":"x"}`)
		r.Flush(`{"id":2,"b":"x"}`)
		r.End()
		Setup{Fit: d}.Begin(t, db).Flush(`{"id":3,"c":"x"}`)
		Expect(t, db, "SELECT * FROM log", `it's; "made"`)
		Expect(t, db, "SELECT id FROM t ORDER BY id", "1", "2", "3")
	}},
	{"AnErrorEndsTheRun", func(t *testing.T, db Database) {
		for _, sql := range []string{"CREATE INDEX by_x ON t (x)", "nonsense", "COMMIT"} {
			r := Setup{Fit: onCreate(sql)}.Begin(t, db)
			_, err := r.TryFlush(`{"id":1,"a":"x"}`)
			if err == nil || !strings.Contains(err.Error(), `a statement of on_create for table "t": `) {
				t.Errorf("%s: %v", sql, err)
			}
			r.End()
		}
		r := Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		Expect(t, db, "SELECT id FROM t", "1")
	}},
	{"AConstraintRejects", func(t *testing.T, db Database) {
		r := Setup{Fit: onCreate("CREATE UNIQUE INDEX once ON t (a)")}.Begin(t, db)
		r.Flush(`{"id":1,"a":"x"}`)
		cp := r.Checkpoint()
		if _, err := r.TryFlush(`{"id":2,"a":"x"}`, `{"id":3,"a":"y"}`); !errors.As(err, new(sink.UnloggedError)) {
			t.Fatalf("the batch kept no messages: %v", err)
		}
		r.Reread(cp)
		Counts(t, r.Flush(`{"id":2,"a":"x"}`, `{"id":3,"a":"y"}`), 1, 0, 0, 0)
		Expect(t, db, "SELECT line FROM weir_rejects", "2")
	}},
}
