package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirsync/weir/internal/test/testpg"
	"github.com/weirsync/weir/internal/test/testweir"
)

// TestSecrets passes a password to every command in every possible place, and looks for it in everything that comes
// out: output, errors, logs, metrics, a panic's stacks, the database and the spool.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const canary = "c4nary"
	l := testweir.New(t, "")
	l.Write("feed.jsonl", `{"id":1,"pitr":7}`+"\nbad\n")
	l.Write("secret", canary)
	l.Write("secret.yml", "source: [\"tcp://127.0.0.1:1\"]\ninit: login me token "+canary+"\ntable: t\nto: host=127.0.0.1 port=1 password='a "+canary+"' user=x dbname=y\n")
	good := strings.Replace(testpg.New(t), "postgres@", "postgres:"+canary+"@", 1)
	if !strings.Contains(good, canary) {
		t.Fatal("the URL has no place for a password")
	}
	bad := "postgres://app:" + canary + "@127.0.0.1:1/db"
	start := func(args ...string) *testweir.Run {
		c := l.Command(args...)
		c.Env = append(c.Env, "FH_USERNAME=somebody", "FH_APIKEY="+canary, "WEIR_LOG_FORMAT=json", "GOTRACEBACK=all")
		if args[0] == "config" {
			c.Env = append(c.Env, "WEIR_INIT=live "+canary)
		}
		return c.Start()
	}
	for _, args := range [][]string{
		{"sync", "feed.jsonl", "--to", good, "-v", "--metrics-file", "out.prom"},
		{"sync", "feed.jsonl", "--to", bad, "-v", "--retry-for", "0s"},
		{"sync", "feed.jsonl", "--to", "postgres://app:" + canary + "@%zz/db"},
		{"sync", "feed.jsonl", "--to", "host=127.0.0.1 port=1 password=" + canary + " user=x dbname=y", "--retry-for", "0s"},
		{"sync", "feed.jsonl", "--to", "postgres://app:pa@" + canary + "@127.0.0.1:1/db", "--retry-for", "0s"},
		{"sync", "feed.jsonl", "--to", "postgres:app:" + canary + "@127.0.0.1:1/db"},
		{"config", "print", "--to", "postgres:app:" + canary + "@127.0.0.1:1/db"},
		{"sync", "feed.jsonl", "--to", good, "--dry-run"},
		{"status", "--to", good},
		{"verify", "feed.jsonl", "--to", good, "--table", "feed"},
		{"config", "print", "--to", good, "--init", "x"},
		{"config", "print"},
		{"config", "print", "--init", "login me token " + canary},
		{"config", "print", "--init=PASS " + canary},
		{"config", "print", "--config", "secret.yml"},
		{"sync", "--config", "secret.yml", "--retry-for", "0s", "-v"},
		{"sync", "tcp://127.0.0.1:1", "--init", `{"user":"x","password":"` + canary + `"}`, "--table", "t", "--to", "t.db", "--retry-for", "0s", "-v"},
		{"sync", "tcp://127.0.0.1:1", "--init", "PASS " + canary, "--table", "t", "--to", "t.db", "--retry-for", "0s", "-v"},
		{"sync", "tcp://somebody:" + canary + "@127.0.0.1:1", "--table", "t", "--to", "t.db"},
		{"sync", good, "--to", "t.db"},
		{"status", good},
		{"verify", "feed.jsonl", "--tu", good},
		{good},
		{"replay", "feed.jsonl", "--init", "PASS (" + canary},
		{"sync", "tls://127.0.0.1:1", "--feed", "firehose", "--table", "t", "--to", "t.db", "--retry-for", "0s", "-v"},
		{"sync", "tcp://127.0.0.1:1", "--init", `login {{file "secret"}}`, "--table", "t", "--to", "t.db", "--retry-for", "0s", "-v"},
	} {
		c := start(args...)
		if out := c.Out() + c.Log(); out == "" || strings.Contains(out, canary) {
			t.Errorf("%v printed %q", args, out)
		}
	}
	for _, args := range [][]string{
		{"sync", "tcp://127.0.0.1:1", "--init", `login {{file "secret"}} {{env "FH_APIKEY"}}`, "--table", "t", "--to", good, "-v", "--spool", "spool"},
		{"sync", "tcp-listen://127.0.0.1:0", "--table", "t", "--to", good, "-v", "--metrics-addr", "127.0.0.1:0"},
		{"sync", "tcp://127.0.0.1:1", "--init", "login me token " + canary, "--table", "t", "--to", "t.db", "-v"},
		{"sync", "tcp://127.0.0.1:1", "--init=login me token " + canary, "--table", "t", "--to", "host=127.0.0.1 port=1 user=x password=a\\ " + canary, "-v"},
	} {
		c := start(args...)
		c.Says(".")
		c.Signal(syscall.SIGQUIT) // it prints all stacks
		if out := c.Out() + c.Log(); strings.Contains(out, canary) || !strings.Contains(out, "goroutine ") {
			t.Errorf("%v, stopped by SIGQUIT:\n%s", args, out)
		}
	}
	page := l.Start("sync", "tcp-listen://127.0.0.1:0", "--table", "t", "--to", good, "--metrics-addr", "127.0.0.1:0")
	for _, path := range []string{"/", "/api/status", "/metrics"} {
		if text := page.Get(path); strings.Contains(text, canary) || !strings.Contains(text, "weir") {
			t.Errorf("%s is\n%s", path, text)
		}
	}
	left := 0
	l.Check(filepath.WalkDir(l.Dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(d.Name(), "secret") || !d.Type().IsRegular() {
			return err
		}
		left++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(canary)) {
			t.Errorf("it is in %s", path)
		}
		return err
	}))
	if left < 7 { // the certificate and its key are two
		t.Errorf("only %d files were left", left)
	}
}
