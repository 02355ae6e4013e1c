package postgres_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testpg"
)

// TestFlush_AWarningForEachRow: a trigger that warns of each row in other words does not flood the log.
func TestFlush_AWarningForEachRow(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.Exec(t, "CREATE TABLE t (id integer PRIMARY KEY, a text)")
	db.Exec(t, "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'row %', NEW.id; RETURN NEW; END $$")
	db.Exec(t, "CREATE TRIGGER warn BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION warn()")
	var log bytes.Buffer
	db.opt.Log = slog.New(slog.NewTextHandler(&log, nil))
	r := sinktest.Begin(t, db)
	for i := range 200 {
		r.Fold(fmt.Sprintf(`{"id":%d,"a":"x"}`, i))
	}
	r.Flush()
	if n := strings.Count(log.String(), "Postgres warns: row"); n != 1 {
		t.Errorf("%d warnings were logged, want 1", n)
	}
}
