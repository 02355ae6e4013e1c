package testkafka

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/test/pgserver"
	"github.com/weirsync/weir/internal/test/testcheck"
	"github.com/weirsync/weir/internal/test/testtls"
)

// User and Password are the login of Apache Kafka's SASL listener.
const (
	User     = "u"
	Password = "p"
)

// A broker is a process of Apache Kafka, which is its own controller. Its data is in a folder that is removed when
// the test binary ends.
type broker struct {
	used    sync.Mutex // by one test at a time
	jars    string     // folder of its program
	dir     string
	cluster string
	ports   [4]int // of the listeners: plain, TLS with client certificates, TLS and SASL, controller
	cmd     *exec.Cmd
	done    <-chan struct{} // closed when the process has ended
}

var shared struct {
	sync.Once
	broker *broker
	err    error
}

// Tests are the tests of a package, for TestMain.
type Tests struct{ M interface{ Run() int } }

// Run runs the tests, stops the shared broker, and returns their exit code.
func (t Tests) Run() int {
	code := t.M.Run()
	if b := shared.broker; b != nil {
		b.kill()
		_ = os.RemoveAll(b.dir)
	}
	return code
}

var errMissing = errors.New("a Kafka broker or Kafka Connect: .ci/needs check gets their jars by Maven, and Java 17 runs them (Debian: apt install openjdk-17-jre-headless maven)")

// shareBroker returns the running broker. If there is none, the test is skipped; in CI it fails.
func shareBroker(t testing.TB) *broker {
	t.Helper()
	testcheck.Only(t)
	shared.Do(func() { shared.broker, shared.err = startBroker(t) })
	switch err := shared.err; {
	case errors.Is(err, errMissing) && os.Getenv("REQUIRE_KAFKA") == "":
		testcheck.Missing(t, err.Error())
	case err != nil:
		t.Fatal(err)
	}
	return shared.broker
}

// jars returns the folder with the jars of a pom, which .ci/needs has filled.
func jars(t testing.TB, pom string) (string, error) {
	folder := filepath.Join(testcheck.Root(t), ".bin", pom)
	if found, _ := filepath.Glob(filepath.Join(folder, "*.jar")); len(found) == 0 {
		return "", errMissing
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", errMissing
	}
	return folder, nil
}

func startBroker(t testing.TB) (_ *broker, err error) {
	b := &broker{}
	if b.jars, err = jars(t, "broker"); err != nil {
		return nil, err
	}
	if b.dir, err = testcheck.Folder(os.TempDir(), "weir-kafka-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(b.dir)
		}
	}()
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	b.cluster = base64.RawURLEncoding.EncodeToString(append([]byte{0}, id[1:]...))
	if err := b.configure(); err != nil {
		return nil, err
	}
	format := b.java("kafka.tools.StorageTool", "format", "-t", b.cluster, "-c", b.file("server.properties"),
		"--add-scram", "SCRAM-SHA-256=[name="+User+",password="+Password+"]", "--add-scram", "SCRAM-SHA-512=[name="+User+",password="+Password+"]")
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("formatting the broker's storage: %w\n%s", err, out)
	}
	return b, b.up()
}

func (b *broker) file(name string) string { return filepath.Join(b.dir, name) }

//go:embed broker/server.properties
var properties string

// configure writes the broker's settings, its certificate and key.
func (b *broker) configure() (err error) {
	for i := range b.ports {
		if b.ports[i], err = pgserver.FreePort(); err != nil {
			return err
		}
	}
	if err := testtls.Write(b.dir); err != nil {
		return err
	}
	key, err := os.ReadFile(b.file("key.pem"))
	if err != nil {
		return err
	}
	certificate, err := os.ReadFile(b.file("cert.pem"))
	if err != nil {
		return err
	}
	text := strings.NewReplacer("DIR", b.dir, "USER", User, "PASSWORD", Password, "PLAIN_PORT", strconv.Itoa(b.ports[0]), "TLS_PORT", strconv.Itoa(b.ports[1]),
		"SASL_PORT", strconv.Itoa(b.ports[2]), "CONTROLLER_PORT", strconv.Itoa(b.ports[3])).Replace(properties)
	return errors.Join(os.WriteFile(b.file("broker.pem"), append(key, certificate...), 0o600), os.WriteFile(b.file("server.properties"), []byte(text), 0o600))
}

// java returns a command of Kafka's jars.
func (b *broker) java(args ...string) *exec.Cmd { return java(b.jars, b.dir, args...) }

// java returns a command of the jars in a folder, to be run in another.
func java(jars, dir string, args ...string) *exec.Cmd {
	c := exec.Command("java", append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(jars, "*")}, args...)...)
	c.Dir, c.SysProcAttr = dir, attributes()
	return c
}

// up starts the broker, and waits until it accepts requests.
func (b *broker) up() error {
	b.cmd = b.java("kafka.Kafka", b.file("server.properties"))
	log, err := os.OpenFile(b.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	b.cmd.Stdout, b.cmd.Stderr = log, log
	if b.done, err = pgserver.Begin(b.cmd); err != nil {
		return err
	}
	return b.serves()
}

// serves waits until the broker accepts requests.
func (b *broker) serves() error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(fmt.Sprint("127.0.0.1:", b.ports[0])), kgo.RequestRetries(0))
	if err != nil {
		return err
	}
	defer cl.Close()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		meta, err := kadm.NewClient(cl).Metadata(ctx)
		cancel()
		if err == nil && len(meta.Brokers) > 0 && leads(meta.Topics) {
			return nil
		}
		select {
		case <-b.done:
			return fmt.Errorf("the broker ended: %w\n%s", err, b.logTail())
		default:
		}
		if time.Now().After(end) {
			b.kill()
			return fmt.Errorf("the broker does not serve: %w\n%s", err, b.logTail())
		}
	}
}

// leads reports whether each partition has a leader.
func leads(topics kadm.TopicDetails) bool {
	all := true
	topics.EachPartition(func(p kadm.PartitionDetail) { all = all && p.Err == nil })
	return all
}

func (b *broker) running() bool {
	select {
	case <-b.done:
		return false
	default:
		return true
	}
}

// kill ends the broker at once.
func (b *broker) kill() {
	_ = b.cmd.Process.Kill()
	<-b.done
}

// logTail returns the end of the broker's log.
func (b *broker) logTail() string {
	text, _ := os.ReadFile(b.file("log"))
	return string(text[max(0, len(text)-20_000):])
}
