package postgres_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/logtest"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sinktest"
	"github.com/weirsync/weir/internal/testcheck"
	"github.com/weirsync/weir/internal/testpg"
)

// certificate makes a key and a certificate for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "weir"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// TestOpen_TLSAndPasswords: a server that takes encrypted connections with a
// password alone.
func TestOpen_TLSAndPasswords(t *testing.T) {
	s := testpg.Start(t)
	db := connect(t, s.Database(t))
	db.Exec(t, "CREATE ROLE app LOGIN PASSWORD 's3cret'")
	db.Exec(t, "GRANT CREATE ON SCHEMA public TO app")
	cert, key := certificate(t)
	other, _ := certificate(t)
	s.Configure(t, "server.crt", cert)
	s.Configure(t, "server.key", key)
	s.Configure(t, "pg_hba.conf", []byte("hostssl all app 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n"))
	db.Exec(t, "ALTER SYSTEM SET ssl = on")
	db.Exec(t, "SELECT pg_reload_conf()")
	dir := t.TempDir()
	for name, text := range map[string][]byte{"ca": cert, "other": other, "pass": []byte("127.0.0.1:*:*:app:s3cret\n"), "wrong": []byte("*:*:*:*:nonsense\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	database := db.one(t, "SELECT current_database()")
	dsn := func(more string) string {
		return fmt.Sprintf("host=127.0.0.1 port=%d dbname=%s user=app %s", s.Port, database, strings.ReplaceAll(more, "$", dir+"/"))
	}
	open := func(more string) error {
		d, err := postgres.Open(t.Context(), dsn(more), sink.Options{Level: sink.Full, Log: logtest.New(t)})
		if err == nil {
			d.Close()
		}
		return err
	}
	for end := time.Now().Add(time.Minute); open("sslmode=require password=s3cret") != nil && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		continue // until the server has read its configuration
	}
	for more, want := range map[string]string{
		"sslmode=verify-full sslrootcert=$ca password=s3cret":   "",
		"sslmode=verify-ca sslrootcert=$ca passfile=$pass":      "",
		"sslmode=require passfile=$pass":                        "",
		"sslmode=prefer password=s3cret":                        "",
		"sslmode=verify-full sslrootcert=$other passfile=$pass": "certificate signed by unknown authority",
		"sslmode=disable password=s3cret":                       "no encryption",
		"sslmode=require passfile=$wrong":                       "the password may stand in",
	} {
		err := open(more)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "nonsense")) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
	if err := open("sslmode=verify-full sslrootcert=$other passfile=$pass"); !strings.Contains(err.Error(), "not retried: check the host, sslmode and the certificates") {
		t.Errorf("a server that is not trusted: %v", err)
	}
	db.weir = dsn("sslmode=verify-full sslrootcert=$ca passfile=$pass")
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	sinktest.Expect(t, db, "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'app'", "true")
}

// TestOpen_Standby: of two servers the one that takes writes is meant.
func TestOpen_Standby(t *testing.T) {
	testcheck.Only(t)
	s := testpg.Start(t)
	db := connect(t, s.Database(t))
	standby := s.Standby(t)
	d, err := postgres.Open(t.Context(), standby.URL("postgres"), sink.Options{Level: sink.Full, Log: logtest.New(t)})
	if err == nil {
		d.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "standby") {
		t.Errorf("a standby was taken: %v", err)
	}
	db.weir = fmt.Sprintf("postgres://postgres@127.0.0.1:%d,127.0.0.1:%d/%s?target_session_attrs=read-write&sslmode=disable", standby.Port, s.Port, db.one(t, "SELECT current_database()"))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	r.Flush(`{"id":1,"a":"y"}`)
	// The standby takes over, with all that it got so far.
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

// TestOpen_ReadOnlyRole: a setting that no failover lifts ends the run at once.
func TestOpen_ReadOnlyRole(t *testing.T) {
	db := connect(t, testpg.New(t))
	r := sinktest.Begin(t, db)
	r.Flush(`{"id":1,"a":"x"}`)
	db.Exec(t, "ALTER DATABASE "+db.one(t, "SELECT current_database()")+" SET default_transaction_read_only = on")
	db.Exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weir/%'")
	r.Fold(`{"id":1,"a":"y"}`)
	_, err := sink.Retry(r.Sink, time.Minute, func(e *sink.Error) {
		if e.Reason != "connection" {
			t.Errorf("tried again for %s", e.Reason)
		}
	}).Flush(t.Context(), r.Seal())
	r.Reset()
	if err == nil || !strings.Contains(err.Error(), "SET default_transaction_read_only = off") {
		t.Errorf("the flush ended with %v", err)
	}
}
