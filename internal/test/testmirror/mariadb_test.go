package testmirror

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// mariadb is a private MariaDB server with a binlog, whose data is in a separate folder.
type mariadb struct {
	t    testing.TB
	dir  string
	port int
}

// startMariaDB starts a server with a database depot, as the user of Postgres servers, who owns the folder. More are
// arguments for the server.
func startMariaDB(t testing.TB, dir string, more []string) *mariadb {
	t.Helper()
	server := testcheck.Tool(t, "mariadbd")
	m := &mariadb{t: t, dir: dir}
	var err error
	m.port, err = pgserver.FreePort()
	testcheck.NoError(t, err)
	data := "--datadir=" + filepath.Join(m.dir, "data")
	install := exec.Command(testcheck.Tool(t, "mariadb-install-db"), "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db")
	install.Dir, install.SysProcAttr = dir, pgserver.Attributes()
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(server, append([]string{"--no-defaults", data, "--socket=" + m.socket(), "--bind-address=127.0.0.1", fmt.Sprint("--port=", m.port),
		"--skip-name-resolve", "--character-set-server=utf8mb4", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M"}, more...)...)
	log, err := os.Create(filepath.Join(m.dir, "log"))
	testcheck.NoError(t, err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir, cmd.SysProcAttr = dir, pgserver.Attributes()
	ended, err := pgserver.Begin(cmd)
	testcheck.NoError(t, err)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	testcheck.Until(t, func() string {
		if _, err := m.ask("SELECT 1"); err != nil {
			return err.Error()
		}
		return ""
	})
	m.run("CREATE DATABASE depot")
	return m
}

func (m *mariadb) socket() string { return filepath.Join(m.dir, "s") }

// client runs the client with statements, and returns its output.
func (m *mariadb) client(sql string, more ...string) (string, error) {
	c := exec.Command("mariadb", append([]string{"--no-defaults", "-S", m.socket(), "-u", "root", "--default-character-set=utf8mb4", "--batch", "--skip-column-names"}, more...)...)
	c.Stdin = strings.NewReader(sql)
	out, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// run runs statements, all of which must succeed.
func (m *mariadb) run(statements ...string) {
	m.t.Helper()
	_, err := m.client(strings.Join(statements, ";\n") + ";\n")
	testcheck.NoError(m.t, err)
}

// transact runs transactions, and returns the number of statements that failed.
func (m *mariadb) transact(transactions []string) (failed int) {
	m.t.Helper()
	out, _ := m.client("USE depot; SET time_zone = '+00:00';\n"+strings.Join(transactions, "\n"), "--force")
	if strings.Contains(out, "ERROR 1064") { // syntax error
		m.t.Fatalf("%.2000s", out)
	}
	return strings.Count(out, "ERROR ")
}

// ask returns the rows of a query's answer as text.
func (m *mariadb) ask(query string) (rows [][]string, err error) {
	out, err := m.client("SET time_zone = '+00:00';\n" + query)
	for line := range strings.Lines(out) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		rows = append(rows, cells)
	}
	return rows, err
}

// rows returns the values of expressions in each row of a table, by the first of them.
func (m *mariadb) rows(table string, expressions []string) (all map[string][]string) {
	m.t.Helper()
	for i, e := range expressions {
		expressions[i] = "HEX(CAST(" + e + " AS CHAR))"
	}
	rows, err := m.ask("SELECT " + strings.Join(expressions, ", ") + " FROM depot." + table)
	testcheck.NoError(m.t, err)
	all = map[string][]string{}
	for _, row := range rows {
		for i, cell := range row {
			if cell != "NULL" {
				text, err := hex.DecodeString(cell)
				testcheck.NoError(m.t, err)
				row[i] = string(text)
			}
		}
		all[row[0]] = row[1:]
	}
	return all
}
