//go:build unix

package testpg

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
)

var errNoPooler = fmt.Errorf("%w; neither is pgbouncer (Debian: apt install pgbouncer)", errMissing)

// Pool runs a pgbouncer in front of the server of a connection string, in a pool mode (transaction, statement), with
// two sessions for all clients. It returns the connection string of the pgbouncer. All clients become the user
// postgres.
func Pool(t testing.TB, url, mode string) string {
	t.Helper()
	bin, err := exec.LookPath("pgbouncer")
	if err != nil {
		if _, err := os.Stat("/usr/sbin/pgbouncer"); err != nil {
			skipWithoutPostgres(t, errNoPooler)
		}
		bin = "/usr/sbin/pgbouncer"
	}
	u, err := neturl.Parse(url)
	testcheck.NoError(t, err)
	port, err := pgserver.FreePort()
	testcheck.NoError(t, err)
	dir, err := mkdir()
	testcheck.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	ini := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s port=%s user=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port=%d\nunix_socket_dir=\nauth_type=any\npool_mode=%s\ndefault_pool_size=2\nmax_client_conn=50\n",
		u.Hostname(), u.Port(), port, mode)
	testcheck.NoError(t, errors.Join(os.WriteFile(ini, []byte(text), 0o644), os.Chmod(dir, 0o755)))
	c := exec.Command(bin, ini)
	c.Dir = dir
	c.SysProcAttr = pgserver.Attributes()
	log, err := os.Create(filepath.Join(dir, "log"))
	testcheck.NoError(t, err)
	c.Stdout, c.Stderr = log, log
	done, err := pgserver.Begin(c)
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Process.Signal(syscall.SIGKILL)
		<-done
		log.Close()
	})
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		p, err := pgconn.Connect(context.Background(), u.String())
		if err == nil {
			_ = p.Close(context.Background())
			return u.String()
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			t.Fatalf("pgbouncer: %v\n%s", err, said)
		}
	}
}
