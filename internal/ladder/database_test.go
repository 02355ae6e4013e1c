package ladder

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/testpg"
)

func TestMain(m *testing.M) { os.Exit(testpg.Tests{M: m}.Run()) }

// TestPostgres_LeavesNoSchema, whenever it is interrupted.
func TestPostgres_LeavesNoSchema(t *testing.T) {
	url := testpg.New(t)
	for range 50 {
		db, err := Open(postgres.Driver.Name, url)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Begin(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(500*time.Microsecond))
		if err := db.Wipe(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if err := db.End(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	noSchemaIsLeft(t, url)
}

// noSchemaIsLeft demands that measurements left none in a database.
func noSchemaIsLeft(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	var left int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'weir_bench%'").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if left != 0 {
		t.Errorf("it left %d schemas", left)
	}
}
