package job_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/sink"
)

// TestSync_ConstraintAddedMeanwhile: what a constraint rejects that a table gets during the
// run is found message by message, though the batch at hand has not kept its messages.
func TestSync_ConstraintAddedMeanwhile(t *testing.T) {
	var feed []string
	for i := range 100 {
		feed = append(feed, fmt.Sprintf(`{"id":%d,"n":%d}`, i, i))
	}
	feed = append(feed, `{"id":7,"a":"kept"}`, `{"id":7,"n":3,"a":"lost"}`, `{"id":200,"n":200}`)
	path := filepath.Join(t.TempDir(), "feed.jsonl")
	write(t, path, feed)
	for kind, dest := range destinations(t) {
		t.Run(kind, func(t *testing.T) {
			db := openSink(t, dest)
			defer db.Close()
			rejects, err := job.ParseRejects("table")
			if err != nil {
				t.Fatal(err)
			}
			again := 0
			p := progress.New("t")
			err = job.Run(t.Context(), job.Config{
				Sources: []string{path}, Job: "t", BatchRows: 10, Buffer: 1 << 24, Rejects: rejects, MaxRejects: 10,
				Tables: []job.Table{{Name: "t", Fold: fold.Options{Key: []string{"id"}, MaxColumns: 500}}},
				Log: logtest.To(func(text string) {
					if strings.Contains(text, "reading again") {
						again++
					}
				}),
			}, &addsIndex{Sink: db, t: t, dest: dest}, openClaims(t, dest), p)
			if err != nil {
				t.Fatal(err)
			}
			if again != 1 {
				t.Errorf("the source was read again %d times", again)
			}
			if got := query(t, dest, "SELECT count(*) || ' ' || sum(n) FROM t"); got != "101 5150" {
				t.Errorf("rows and their sum: %s", got)
			}
			if got := query(t, dest, "SELECT n || ' ' || a FROM t WHERE id = 7"); got != "7 kept" {
				t.Errorf("the row of which a message was rejected is %s", got)
			}
			if got := query(t, dest, "SELECT count(*) || ' ' || max(line) FROM weir_rejects"); got != "1 102" {
				t.Errorf("rejected lines, and the last: %s", got)
			}
		})
	}
}

// execSQL runs a statement as another program does.
func execSQL(t *testing.T, dest, statement string) {
	t.Helper()
	driver := "pgx"
	if !isPostgres(dest) {
		driver = "sqlite"
	}
	db, err := sql.Open(driver, dest)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Error(err)
	}
}

// addsIndex is a sink whose table gets a unique index behind the third flush.
type addsIndex struct {
	sink.Sink
	t       *testing.T
	dest    string
	flushes int
}

func (a *addsIndex) Flush(ctx context.Context, f *sink.Flush) (sink.Result, error) {
	res, err := a.Sink.Flush(ctx, f)
	if a.flushes++; err == nil && a.flushes == 3 {
		execSQL(a.t, a.dest, "CREATE UNIQUE INDEX other ON t (n)")
	}
	return res, err
}
