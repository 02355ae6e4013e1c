//go:build unix

package testpg_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
)

func TestMain(m *testing.M) { os.Exit(testpg.Tests{M: m}.Run()) }

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	testcheck.NoError(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec(t *testing.T, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestServer_KeepsWhatWasCommittedOverAKill(t *testing.T) {
	s := testpg.Start(t, "fsync=on")
	c := connect(t, s.URL("postgres"))
	exec(t, c, "CREATE TABLE t (id int)")
	exec(t, c, "INSERT INTO t VALUES (1)")
	s.Kill()
	if err := c.Ping(t.Context()); err == nil {
		t.Error("a killed server answers")
	}
	s.Restart(t)
	n := 0
	if err := connect(t, s.URL("postgres")).QueryRow(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v", n, err)
	}
}

func TestProxy(t *testing.T) {
	p := testpg.NewProxy(t, testpg.New(t))
	c := connect(t, p.URL())
	p.Cut(nil)
	exec(t, c, "SELECT 1")
	if n := p.Count(); n.Client != 1 || n.Server != 4 || n.Answers != 1 {
		t.Errorf("one query was %+v", n)
	}
	exec(t, c, "SELECT 1")
	if n := p.Count(); n.Answers != 2 {
		t.Errorf("two queries were %+v", n)
	}
	p.Delay(20 * time.Millisecond)
	start := time.Now()
	exec(t, c, "SELECT 1")
	if took := time.Since(start); took < 40*time.Millisecond {
		t.Errorf("with 20 ms each way a query took %v", took)
	}
	p.Delay(0)
	p.Cut(func(m testpg.Message) bool { return !m.FromClient && m.Number == 1 })
	if _, err := c.Exec(t.Context(), "SELECT 1", pgx.QueryExecModeSimpleProtocol); err == nil || p.Cuts() != 1 {
		t.Errorf("the query ended with %v after %d cuts", err, p.Cuts())
	}
	p.Refuse(true)
	if _, err := pgx.Connect(t.Context(), p.URL()); err == nil {
		t.Error("a connection was not refused")
	}
	p.Refuse(false)
	exec(t, connect(t, p.URL()), "SELECT 1")
}
