package postgres_test

import (
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestWiden_DigitsOfASetting: a setting that has Postgres print fewer digits changes no
// value that is widened.
func TestWiden_DigitsOfASetting(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "ALTER DATABASE "+db.one(t, "SELECT current_database()")+" SET extra_float_digits = -5")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"text":0.30000000000000004,"number":32.815236600469404}`)
	r.Flush(`{"id":2,"text":"x","number":0.12345678901234567890123}`)
	sinktest.Expect(t, db, "SELECT text, number::text FROM t WHERE id = 1", "0.30000000000000004|32.815236600469404")
}

// TestVersion_OfADoubleIsItsShortestText: a version that comes again is no older one,
// though Postgres prints it with a digit more.
func TestVersion_OfADoubleIsItsShortestText(t *testing.T) {
	for _, v := range []string{"4.401664516341784e17", "2.003485544858745e16", "1.5"} {
		db := connect(t, testpg.New(t))
		db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, v double precision, a text)")
		r := sinktest.Begin(t, db, func(o *fold.Options) { o.Version, o.Scope = "v", fold.RowScope })
		r.Flush(`{"id":1,"v":` + v + `,"a":"first"}`)
		r.Flush(`{"id":1,"v":` + v + `,"a":"again"}`)
		sinktest.Expect(t, db, "SELECT a FROM t", "again")
	}
}
