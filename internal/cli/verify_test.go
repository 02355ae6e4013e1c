package cli

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// TestVerify_RowsThatExpired are counted apart, others that are missing are differences, and
// stamps are not compared.
func TestVerify_RowsThatExpired(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "flights.jsonl"), filepath.Join(dir, "t.db")
	feed := `{"id":1,"seen":"2020-05-15 13:30:00"}` + "\n" + `{"id":2,"seen":"2100-01-01T00:00:00Z"}` + "\n" + `{"id":3}` + "\n" + `{"id":4,"seen":null}` + "\n"
	if err := os.WriteFile(path, []byte(feed), 0o600); err != nil {
		t.Fatal(err)
	}
	moved := func(l *schema.Limits, t *schema.Table) error { return l.AddStamp(t, "moved", schema.UpdateStamp) }
	column := func(name string, from mapping.Source) mapping.Column {
		return mapping.Column{Name: name, From: []mapping.Source{from}}
	}
	kept := mapping.Table{Name: "flights", Key: []string{"id"}, MaxColumns: 10, Expire: &mapping.Expire{After: 48 * time.Hour, Of: []string{"seen", "moved"}},
		Columns: []mapping.Column{column("id", mapping.Source{From: mapping.FieldPath("id")}), column("seen", mapping.Source{From: mapping.FieldPath("seen")}), column("moved", mapping.Source{Stamp: mapping.UpdateStamp})}}
	verify := func(at, want string) {
		t.Helper()
		var out bytes.Buffer
		e := &env{stdout: &out, log: slog.New(slog.DiscardHandler)}
		o := &verifyOptions{show: 10, at: at}
		o.tableOptions.flags(pflag.NewFlagSet("", pflag.PanicOnError), &o.choices)
		o.foldOptions.flags(pflag.NewFlagSet("", pflag.PanicOnError), &o.choices)
		o.to, o.maxLine, o.mapping = to, 1<<20, &mapping.Mapping{File: "weir.yaml", Tables: []mapping.Table{kept}}
		err := e.verify(t.Context(), o, []string{path})
		if err != nil {
			out.WriteString(err.Error())
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("--at %q: %s", at, &out)
		}
	}
	db, err := sqlite.Open(t.Context(), to, sqlite.Options{Synchronous: sink.Off, Log: logtest.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rejects, err := job.ParseRejects("fail")
	if err != nil {
		t.Fatal(err)
	}
	sync := job.Table{Name: "flights", Fit: moved, Fold: fold.Options{Key: []string{"id"}, MaxColumns: 10}}
	if err := job.Run(t.Context(), job.Config{Sources: []string{path}, Job: "flights", Tables: []job.Table{sync}, BatchRows: 100, Buffer: 1 << 20, Rejects: rejects, Log: logtest.New(t)},
		db, nil, progress.New("flights")); err != nil {
		t.Fatal(err)
	}
	verify("2020-05-16T00:00:00Z", `4 rows of table "flights" are the fold of 4 lines, but for 0 rows that had expired`)
	// Two days on, rows 1, 3 and 4 are old.
	later := time.Now().Add(96 * time.Hour)
	e := &sink.Expiry{Table: "flights", Key: []string{"id"}, Of: []string{"seen", "moved"}, Before: later.Add(-48 * time.Hour)}
	if did, err := db.Expire(t.Context(), e); err != nil || did.Removed != 3 {
		t.Fatalf("%+v, %v", did, err)
	}
	verify(later.Format(time.RFC3339), `1 row of table "flights" is the fold of 4 lines, but for 3 rows that had expired`)
	verify("2020-05-16T00:00:00Z", "1: the table lacks the row\n1 difference in 4 rows")
	verify("", "--at TIME says when it is compared")
	verify("yesterday", `--at "yesterday" is not a time`)
	kept.Expire = nil
	verify("2020-05-16T00:00:00Z", "--at is for a table whose rows expire")
	verify("", "1: the table lacks the row")
}
