package testkafka

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// Connect is a process of Kafka Connect, which runs connectors from properties files.
type Connect struct {
	t     testing.TB
	jars  string
	dir   string
	url   string
	files []string // properties files: the worker's first
	cmd   *exec.Cmd
	done  <-chan struct{}
}

// Properties returns the text of a properties file with other values for some keys, which must exist.
func Properties(t testing.TB, file string, values map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	testcheck.NoError(t, err)
	for key, value := range values {
		line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(key) + `=.*$`)
		if len(line.FindAll(text, -1)) != 1 {
			t.Fatalf("%s does not set %s once", file, key)
		}
		text = line.ReplaceAllLiteral(text, []byte(key+"="+value))
	}
	return string(text)
}

// Connect starts Kafka Connect with properties for the worker and each connector, and waits until their tasks run. It
// requires Apache Kafka.
func (c *Cluster) Connect(worker string, connectors ...string) *Connect {
	c.t.Helper()
	jars, err := jars(c.t, "debezium")
	if err != nil {
		testcheck.Missing(c.t, err.Error())
	}
	port, err := pgserver.FreePort()
	testcheck.NoError(c.t, err)
	x := &Connect{t: c.t, jars: jars, dir: c.t.TempDir(), url: fmt.Sprint("http://127.0.0.1:", port)}
	worker = Properties(c.t, worker, map[string]string{
		"bootstrap.servers": c.Addr(), "plugin.path": x.dir, "listeners": x.url, "offset.storage.file.filename": filepath.Join(x.dir, "offsets"),
	})
	for i, text := range append([]string{worker + "plugin.discovery=service_load\n"}, connectors...) {
		file := filepath.Join(x.dir, fmt.Sprint(i, ".properties"))
		testcheck.NoError(c.t, os.WriteFile(file, []byte(text), 0o600))
		x.files = append(x.files, file)
	}
	c.t.Cleanup(func() {
		x.Kill()
		if c.t.Failed() {
			c.t.Logf("Connect said:\n%s", x.logTail())
		}
	})
	x.Up()
	return x
}

// Up starts Connect again after Kill.
func (x *Connect) Up() {
	x.t.Helper()
	log, err := os.OpenFile(filepath.Join(x.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testcheck.NoError(x.t, err)
	defer log.Close()
	x.cmd = java(x.jars, x.dir, append([]string{"org.apache.kafka.connect.cli.ConnectStandalone"}, x.files...)...)
	x.cmd.Stdout, x.cmd.Stderr = log, log
	x.done, err = pgserver.Begin(x.cmd)
	testcheck.NoError(x.t, err)
	x.Runs("the tasks", func() bool { return true })
}

// Runs waits until all tasks run, and until done returns true. The test fails if a task does.
func (x *Connect) Runs(what string, done func() bool) {
	x.t.Helper()
	testcheck.Until(x.t, func() string {
		if idle := x.idle(); idle != "" || done() {
			return idle
		}
		return what
	})
}

// Saved waits until Connect has just saved the connectors' positions after their first snapshots. If it is killed
// earlier, or during the next save, which damages the file, the connectors repeat their snapshots, which have no
// deletes. It saves every five seconds.
func (x *Connect) Saved() {
	x.t.Helper()
	file, now := filepath.Join(x.dir, "offsets"), time.Now()
	x.Runs("the offsets", func() bool {
		info, err := os.Stat(file)
		text, rerr := os.ReadFile(file)
		return err == nil && rerr == nil && info.ModTime().After(now) && strings.Count(string(text), `{"server":`) == len(x.files)-1 && !strings.Contains(string(text), `"snapshot`)
	})
}

// Kill ends Connect at once, like kill -9.
func (x *Connect) Kill() {
	_ = x.cmd.Process.Kill()
	<-x.done
}

// logTail returns the end of Connect's log.
func (x *Connect) logTail() string {
	log, _ := os.ReadFile(filepath.Join(x.dir, "log"))
	return string(log[max(0, len(log)-20_000):])
}

// idle returns a connector without a running task, "" if all have one.
func (x *Connect) idle() string {
	select {
	case <-x.done:
		x.t.Fatal("Connect has ended")
	default:
	}
	names := regexp.MustCompile(`(?m)^name=(.*)$`)
	for _, file := range x.files[1:] {
		text, err := os.ReadFile(file)
		testcheck.NoError(x.t, err)
		name := names.FindSubmatch(text)[1]
		answer, err := http.Get(fmt.Sprintf("%s/connectors/%s/status", x.url, name))
		if err != nil {
			return err.Error()
		}
		status := new(strings.Builder)
		_ = answer.Write(status)
		_ = answer.Body.Close()
		if strings.Contains(status.String(), `"state":"FAILED"`) {
			x.t.Fatalf("%s has failed: %s", name, status)
		}
		if !strings.Contains(status.String(), `"tasks":[{"id":0,"state":"RUNNING"`) {
			return fmt.Sprintf("the task of %s does not run: %s", name, status)
		}
	}
	return ""
}
