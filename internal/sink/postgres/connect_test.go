package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"errors"
	"slices"
	"sync"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/test/logtest"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testtls"
)

// TestOpen_TLSAndPasswords: a server that accepts only encrypted connections with a password.
func TestOpen_TLSAndPasswords(t *testing.T) {
	s := testpg.Start(t)
	db := connect(t, s.Database(t))
	db.Exec(t, "CREATE ROLE app LOGIN PASSWORD 's3cret'")
	db.Exec(t, "GRANT CREATE ON SCHEMA public TO app")
	dir, other := t.TempDir(), t.TempDir()
	testcheck.NoError(t, errors.Join(testtls.Write(dir), testtls.Write(other)))
	for file, from := range map[string]string{"server.crt": "cert.pem", "server.key": "key.pem"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		testcheck.NoError(t, err)
		s.Configure(t, file, text)
	}
	s.Configure(t, "pg_hba.conf", []byte("hostssl all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"))
	db.Exec(t, "ALTER SYSTEM SET ssl = on")
	db.Exec(t, "SELECT pg_reload_conf()")
	for name, text := range map[string]string{"pass": "127.0.0.1:*:*:app:s3cret\n", "wrong": "*:*:*:*:nonsense\n"} {
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	open := func(more string) error {
		more = strings.NewReplacer("$ca", dir+"/cert.pem", "$other", other+"/cert.pem", "$", dir+"/").Replace(more)
		db.weir = fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=app %s", s.Port, db.conn.Config().Database, more)
		return db.tryOpen(t)
	}
	for end := time.Now().Add(time.Minute); open("sslmode=require password=s3cret") != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		continue // until the server has read its configuration
	}
	for more, want := range map[string]string{
		"sslmode=verify-full sslrootcert=$ca password=s3cret":   "",
		"sslmode=verify-ca sslrootcert=$ca passfile=$pass":      "",
		"sslmode=require passfile=$pass":                        "",
		"sslmode=prefer password=s3cret":                        "",
		"sslmode=verify-full sslrootcert=$other passfile=$pass": "(not retried: check the host, sslmode and the certificates)",
		"sslmode=disable password=s3cret":                       "no encryption",
		"sslmode=require passfile=$wrong":                       "the password comes from",
	} {
		err := open(more)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "nonsense")) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
	testcheck.NoError(t, open("sslmode=verify-full sslrootcert=$ca passfile=$pass"))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	sinktest.Expect(t, db, "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'app'", "true")
}

// TestOpen_LoginIsReplaced: a password and an authority are replaced under load, first on one side. Flushes are retried
// until both sides have the new one.
func TestOpen_LoginIsReplaced(t *testing.T) {
	s := testpg.Start(t)
	db := connect(t, s.Database(t))
	db.Exec(t, "CREATE ROLE app LOGIN PASSWORD 'first'")
	db.Exec(t, "GRANT CREATE ON SCHEMA public TO app")
	dir := t.TempDir()
	testcheck.NoError(t, testtls.Write(dir))
	write := func(name, text string) {
		t.Helper()
		testcheck.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	// connectBy sets where weir connects, and which authority it trusts.
	connectBy := func(ca string) {
		db.weir = fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=app passfile=%[3]s/pass sslmode=verify-full sslrootcert=%[3]s/%s", s.Port, db.conn.Config().Database, dir, ca)
	}
	serve := func() {
		t.Helper()
		for file, from := range map[string]string{"server.crt": "cert.pem", "server.key": "key.pem"} {
			text, err := os.ReadFile(filepath.Join(dir, from))
			testcheck.NoError(t, err)
			s.Configure(t, file, text)
		}
		db.Exec(t, "SELECT pg_reload_conf()")
		connectBy("cert.pem")
		for end := time.Now().Add(time.Minute); db.tryOpen(t) != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			continue // until the server has read its configuration
		}
		connectBy("ca.pem")
	}
	trust := func() {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
		testcheck.NoError(t, err)
		write("ca.pem", string(text))
	}
	s.Configure(t, "pg_hba.conf", []byte("hostssl all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"))
	db.Exec(t, "ALTER SYSTEM SET ssl = on")
	write("pass", "*:*:*:app:first\n")
	serve()
	trust()
	r := sinktest.Begin(t, db)
	n := 0
	// breaks makes the next flush reconnect, with a rejected login. It calls mend after the second rejection. The flush
	// ends with an error if that does not help.
	breaks := func(reason string, mend func()) {
		t.Helper()
		n++
		r.Fold(fmt.Sprintf(`{"id":%d,"a":"x"}`, n), "bad")
		db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")
		refused := 0
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		_, err := sinktest.Retry(r.Sink, time.Minute, func(e *sink.Error) {
			if e != nil && e.Reason == reason && !strings.Contains(e.Error(), "terminat") && !strings.Contains(e.Error(), "EOF") {
				switch refused++; refused {
				case 2:
					mend()
				case 5:
					giveUp()
				}
			}
		}).Flush(ctx, r.Seal())
		r.Reset()
		if err != nil || refused < 2 {
			t.Fatalf("the flush after %d refusals: %v", refused, err)
		}
	}
	r.Flush(`{"id":0,"a":"x"}`)
	db.Exec(t, "ALTER ROLE app PASSWORD 'second'")
	breaks("login", func() { write("pass", "*:*:*:app:second\n") })
	testcheck.NoError(t, testtls.Write(dir))
	serve()
	breaks("connection", trust)
	write("ca.pem", "a torn file")
	breaks("login", trust)
	sinktest.Expect(t, db, "SELECT count(*), (SELECT count(*) FROM weir_rejects) FROM t", "4|3")
	if err := db.tryOpen(t); err != nil {
		t.Error(err)
	}
	write("pass", "*:*:*:app:first\n")
	if err := db.tryOpen(t); err == nil || !strings.Contains(err.Error(), "read at each connection") {
		t.Errorf("a run that begins with the old password: %v", err)
	}
}

// TestOpen_Standby: of two servers, weir uses the one that accepts writes.
func TestOpen_Standby(t *testing.T) {
	testcheck.Only(t)
	s := testpg.Start(t)
	db := connect(t, s.Database(t))
	standby := s.Standby(t)
	db.weir = standby.URL("postgres")
	if err := db.tryOpen(t); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a standby was taken: %v", err)
	}
	db.weir = fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/%s?target_session_attrs=read-write&sslmode=disable", standby.Port, s.Port, db.one(t, "SELECT current_database()"))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	r.Flush(`{"id":1,"a":"y"}`)
	// The standby takes over, with everything that it got so far.
	standby.CatchUp(t, s)
	s.Kill()
	standby.Promote(t)
	r.Fold(`{"id":1,"a":"z"}`, "bad")
	_, again := patient(t, r)
	if len(again) == 0 {
		t.Error("did not exercise: nothing was tried again")
	}
	after := connect(t, strings.Replace(db.url, fmt.Sprint(s.Port), fmt.Sprint(standby.Port), 1))
	sinktest.Expect(t, after, "SELECT a, (SELECT seq FROM weir_checkpoints), (SELECT count(*) FROM weir_rejects) FROM t", "z|3|1")
}

// TestOpen_ReadOnlyRole: a setting that a failover does not change ends the run at once.
func TestOpen_ReadOnlyRole(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	db.set(t, "default_transaction_read_only = on")
	db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weir/%'")
	r.Fold(`{"id":1,"a":"y"}`)
	_, err := sinktest.Retry(r.Sink, time.Minute, func(e *sink.Error) {
		if e != nil && e.Reason != "connection" {
			t.Errorf("tried again for %s", e.Reason)
		}
	}).Flush(t.Context(), r.Seal())
	r.Reset()
	if err == nil || !strings.Contains(err.Error(), "SET default_transaction_read_only = off") {
		t.Errorf("the flush ended with %v", err)
	}
}

// TestPooler: several runs share two sessions, which a pooler gives to whichever run has a transaction.
func TestPooler(t *testing.T) {
	db := connect(t, testpg.New(t))
	db.weir = testpg.Pool(t, db.url, "transaction")
	var mu sync.Mutex
	var said []string
	db.opt.Log = logtest.To(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	})
	db.Exec(t, "CREATE TABLE t (id text PRIMARY KEY, a integer CHECK (a <> 7), b integer)")
	const runs, flushes = 4, 30
	atOnce(runs, func(job string) *sinktest.Run { return sinktest.BeginJob(t, db, job) }, flushes, func(r *sinktest.Run, _ *rand.Rand, i, n int) {
		for k := range 50 {
			r.Fold(fmt.Sprintf(`{"id":"%d-%d","a":%d}`, i, k, 100+n), fmt.Sprintf(`{"id":"all-%d","b":%d}`, k, n))
		}
		r.Flush(fmt.Sprintf(`{"id":"%d-%d","a":7}`, i, n), "bad")
	})
	if !slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, "behind a pooler") }) {
		t.Errorf("the pooler was not noticed: %q", said)
	}
	sinktest.Expect(t, db, "SELECT count(*), min(a), max(b) FROM t", fmt.Sprintf("%d|%d|%d", 50*(runs+1), 100+flushes-1, flushes-1))
	sinktest.Expect(t, db, "SELECT count(*), count(DISTINCT (job, line)) FROM weir_rejects", fmt.Sprintf("%d|%[1]d", 2*runs*flushes))
	sinktest.Expect(t, db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", "0")
}

// TestOpen_RunIsStopped: a server that does not answer is not waited for when the run is to end.
func TestOpen_RunIsStopped(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	testcheck.NoError(t, err)
	defer silent.Close()
	stop, cancel := context.WithCancel(t.Context())
	cancel()
	start := time.Now()
	_, err = postgres.Open(t.Context(), "postgres://u@"+silent.Addr().String()+"/x?sslmode=disable", sink.Options{Stop: stop, Log: slog.New(slog.DiscardHandler)})
	if took := time.Since(start); err == nil || took < time.Second || took > 8*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}
