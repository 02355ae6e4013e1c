package cli_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/weirsync/weir/internal/testkafka"
)

// Each recipe of docs/recipes.md that can be run here fills its table as it is printed, with local hosts
// in place of those of the page; those that cannot be run say so.
func TestDocs_Recipes(t *testing.T) {
	feed := `{"id":"BA1","alt":35000}` + "\n" + `{"id":"BA2","alt":100}` + "\n" + `{"id":"BA1","gate":"7"}` + "\n"
	rows := "BA1|35000|7 BA2|100|NULL "
	const flights = "SELECT id, alt, gate FROM flights ORDER BY id"
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/events" {
			fmt.Fprint(w, feed)
			return
		}
		for line := range strings.Lines(feed) {
			fmt.Fprintf(w, "event: change\ndata: %s\n", line)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the stream does not end
	}))
	t.Cleanup(web.Close) // the recipes run in parallel
	array := "[\n" + strings.ReplaceAll(strings.TrimSpace(feed), "\n", ",\n") + "\n]\n"
	csv := "id,alt,gate\nBA1,35000,7\nBA2,100,\n"
	files := map[string]string{"array.json": array, "pretty.json": strings.ReplaceAll(feed, ",", ",\n "), "flights.csv": csv, "flights.jsonl": feed,
		"tap.jsonl": `{"type":"SCHEMA","stream":"flights"}` + "\n" + `{"type":"RECORD","stream":"flights","record":{"id":"BA1","alt":35000,"gate":"7"}}` + "\n" +
			`{"type":"RECORD","stream":"flights","record":{"id":"BA2","alt":100}}` + "\n" + `{"type":"RECORD","stream":"other","record":{"id":"x"}}` + "\n" + `{"type":"STATE"}` + "\n",
		"events.json": `{"payload":{"op":"c","before":null,"after":{"id":"BA1","alt":1,"gate":"7"}}}` + "\n" + `{"op":"c","after":{"id":"BA3","alt":1}}` + "\n" +
			`{"op":"u","before":{"id":"BA1"},"after":{"id":"BA1","alt":35000}}` + "\n" + `{"op":"d","before":{"id":"BA3","alt":1},"after":null}` + "\n" + `{"op":"c","after":{"id":"BA2","alt":100}}` + "\n"}

	page := read(t, "../../docs/recipes.md")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	seen := map[string]bool{}
	for _, section := range strings.Split(page, "\n## ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		if strings.Contains(body, "*Not run.*") {
			continue
		}
		seen[title] = true
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			host := strings.NewReplacer("https://api.example", web.URL)
			query, want := flights, rows
			switch title {
			case "Kafka by kcat":
				c := testkafka.Start(t, kfake.SeedTopics(1, "flights"))
				c.Produce("flights", 0, strings.Split(strings.TrimSpace(feed), "\n")...)
				host = strings.NewReplacer("broker.example:9092", c.Addr())
			case "MQTT":
				_, port, _ := net.SplitHostPort(publisher(t, feed))
				host = strings.NewReplacer("mqtt.example", "127.0.0.1", "1883", port)
			case "CSV":
				want = "BA1|35000|7 BA2|100| "
			}
			var commands []string
			for _, m := range block.FindAllStringSubmatch(body, -1) {
				if title == "CSV" {
					commands = append(commands, m[1])
					continue
				}
				commands = append(commands, strings.Split(strings.TrimSpace(m[1]), "\n")...)
			}
			for _, command := range commands {
				l := newLive(t, "flights.db")
				for name, text := range files {
					l.write(name, text)
				}
				query, want := query, want
				if strings.Contains(command, "--table topics") {
					query, want = "SELECT id FROM topics", "flights/BA "
				}
				l.fills(host.Replace(command), query, want)
			}
		})
	}
	if len(seen) < 8 {
		t.Errorf("did not exercise: %v", seen)
	}
}

// fills runs a command of a shell until the database has what it should have.
func (l *live) fills(command, query, want string) {
	l.t.Helper()
	if first, _, _ := strings.Cut(command, " "); first != "weir" {
		tool(l.t, first)
	}
	if packed := regexp.MustCompile(`^(xz|bzip2) -dc (\S+)`).FindStringSubmatch(command); packed != nil {
		l.check(exec.Command(tool(l.t, packed[1]), "-k", filepath.Join(l.dir, strings.TrimSuffix(packed[2], filepath.Ext(packed[2])))).Run())
	}
	c := exec.Command("sh", "-c", command)
	c.Dir, c.Env = l.dir, append(os.Environ(), "PATH="+l.dir+":"+os.Getenv("PATH"))
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log, err := os.Create(filepath.Join(l.dir, "sync.log"))
	l.check(err)
	defer log.Close()
	c.Stderr = log
	l.check(c.Start())
	defer func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	}()
	l.until(command, func() bool {
		if _, err := os.Stat(filepath.Join(l.dir, l.to)); err != nil && !strings.Contains(l.to, "://") {
			return false
		}
		db := l.database()
		defer db.Close()
		got, err := ask(db, query)
		return err == nil && strings.ReplaceAll(got, "\n", " ") == want
	})
}

// publisher serves MQTT: to each subscriber it sends the lines of a feed. It returns its address.
func publisher(t *testing.T, feed string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	// next reads a packet, and returns its type and body, which is short here.
	next := func(r *bufio.Reader) (kind byte, body []byte) {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil || head[1] >= 128 {
			return 0, nil
		}
		body = make([]byte, head[1])
		_, _ = io.ReadFull(r, body)
		return head[0] >> 4, body
	}
	const topic = "flights/BA"
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					switch kind, body := next(r); kind {
					case 0:
						return
					case 1: // CONNECT
						_, _ = c.Write([]byte{0x20, 2, 0, 0})
					case 8: // SUBSCRIBE
						_, _ = c.Write([]byte{0x90, 3, body[0], body[1], 0})
						for line := range strings.Lines(feed) {
							line = strings.TrimSpace(line)
							_, _ = fmt.Fprintf(c, "%c%c\x00%c%s%s", 0x30, 2+len(topic)+len(line), len(topic), topic, line)
						}
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
