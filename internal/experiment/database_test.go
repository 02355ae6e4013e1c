package experiment

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/testpg"
)

// fillArg has the program of the tests fill a queue, and otherArg say something else and stay.
const fillArg, otherArg = "fill-queue", "other"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fillArg {
		err := FillQueue(context.Background(), os.Args[2], os.Args[3], os.Args[4], os.Stdout)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == otherArg {
		fmt.Println("other")
		time.Sleep(time.Hour)
	}
	os.Exit(testpg.Tests{M: m}.Run())
}

// TestPostgres_LeavesNoSchema wherever it is interrupted.
func TestPostgres_LeavesNoSchema(t *testing.T) {
	url := testpg.New(t)
	for range 50 {
		db, err := Open(postgres.Driver.Name, url)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.begin(t.Context(), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(500*time.Microsecond))
		if err := db.wipe(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		if err := db.end(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	noSchemaIsLeft(t, url)
}

// noSchemaIsLeft demands that experiments have left none in a database.
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
