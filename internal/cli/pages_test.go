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
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/testkafka"
)

const (
	// The code of a run that was interrupted.
	stopped = "130"
	// The number of flights, and that in the flights.jsonl.gz of a scene.
	countFlights, allFlights = "SELECT count(*) FROM flights", "44"
	// What a ladder logs when its first way has written. In Postgres all of it takes a minute.
	firstWay = `synchronous normal \(1 of 3\)`
	// A feed whose key is two fields.
	carriers = `{"carrier":"BA","flight":117,"gate":"7"}` + "\n" + `{"carrier":"BA","flight":118,"gate":"8"}` + "\n"
)

// gates is a feed of two flights, whose ids have a prefix.
func gates(prefix string) string {
	return strings.ReplaceAll(`{"id":"BA1","alt":35000,"pitr":"1795183537"}`+"\n"+`{"id":"BA2","alt":100,"pitr":"1795183538"}`+"\n"+`{"id":"BA1","gate":"7","pitr":"1795183539"}`+"\n", "BA", prefix+"BA")
}

// fills is the sign of a command that writes gates into the table flights.
func fills(command, prefix string) sign {
	return sign{command: command, query: "SELECT id, alt, gate FROM flights WHERE id LIKE '" + prefix + "BA_' ORDER BY id",
		want: strings.ReplaceAll("BA1|35000|7 BA2|100|NULL", "BA", prefix+"BA")}
}

// follows is that of one that does so until it is interrupted.
func follows(command, prefix string) sign {
	s := fills(command, prefix)
	s.live = stopped
	return s
}

// stages are those of the pages whose commands need something, or show more than that they end with 0.
var stages = []stage{
	{page: "README.md", set: setReadme, signs: []sign{
		{command: "<<'END'", query: "SELECT alt, gs, gate_dest FROM flights", want: "35000|481|NULL"},
		{command: "status --to flights.db --sample 1", prints: "BAW117"},
		fills("'captures/*.jsonl'", ""),
		{command: "--follow", live: stopped, query: "SELECT id, alt, gate FROM feed ORDER BY id", want: "BA1|35000|7 BA2|100|NULL"},
		fills("nc feed.example", "n:"),
		follows("tls://feed.example", "t:"),
		{command: "feeds.flights", query: "SELECT count(*) FROM feeds.flights", want: allFlights},
		{command: "sync flights.jsonl.gz", query: countFlights, want: "45"},
		follows("kafka://", ""),
		{command: "status --to", prints: "flights"},
	}},
	{page: "docs/recording/record", set: (*scene).wholeFeed, signs: []sign{
		{command: "timeout", exit: 137},
		{command: "weir sync", query: countFlights, want: "1200"},
		{command: "weir verify", prints: "1,200 rows"},
	}},
	{page: "docs/envelopes.md", set: func(s *scene) {
		s.file("changes.jsonl", `{"op":"c","before":null,"after":{"id":1,"name":"Ann"},"source":{"schema":"s","table":"customers"}}`+"\n"+`{"op":"t","source":{"schema":"s","table":"orders"}}`+"\n")
	}, signs: []sign{
		{command: "debezium --to", query: "SELECT id, name FROM s_customers", want: "1|Ann"},
		{command: "debezium --table", query: "SELECT id, name FROM customers", want: "1|Ann"},
	}},
	{page: "docs/mapping.md", signs: []sign{{command: "weir sync --config air.yaml", exit: 3}}},
	{page: "docs/recipes.md", set: setRecipes, apart: true, signs: []sign{
		follows("/events", ""),
		follows("kcat", ""),
		{command: "--table topics", live: stopped, query: "SELECT id FROM topics", want: "flights/BA"},
		follows("mosquitto_sub", ""),
		{command: "flights.csv", query: "SELECT id, alt, gate FROM flights ORDER BY id", want: "BA1|35000|7 BA2|100|"},
		fills("", ""),
	}},
	{page: "docs/firestarter.md", set: setFirehose, signs: []sign{
		{command: "--to postgres:", live: stopped, query: "SELECT count(*) > 0 FROM positions", want: "true"},
		{command: "captured.jsonl", query: "SELECT count(*) FROM weir_rejects", want: "0"},
	}},
	{page: "docs/kafka.md", set: setKafka, apart: true, signs: []sign{
		follows("--partitions", ""),
		follows("kafka+tls", ""),
		fills("--until-end", ""),
	}},
	{page: "docs/bench.md", apart: true, signs: []sign{
		{command: "--to postgres:", live: stopped, logs: firstWay},
		{prints: `(?s)MESSAGES/S.*7 weir.*No setting that was tried`},
	}},
	{page: "docs/live.md", set: setLiveFeeds, signs: []sign{
		follows("tls://feed.example", ""),
		{command: "watch", live: "0", prints: "BA1"},
		{command: "tls://firehose", live: stopped, query: "SELECT count(*) > 0 FROM flights", want: "true"},
		{command: "tcp-listen", live: stopped, logs: "senders connect to"},
		{command: "nc ", query: "SELECT count(*) FROM flights WHERE id LIKE 's:BA_'", want: "2", db: "flights.db"},
	}},
	{page: "docs/operating.md", set: setNewTable, signs: []sign{
		{command: "--tables positions", query: "SELECT id, alt FROM positions", want: "BA1|35000", db: "flights.db"},
		{command: "--accept-settings", query: "SELECT id, gate FROM flights", want: "BA1|7", db: "flights.db"},
	}},
	{page: "docs/page.md", set: func(s *scene) { s.ports("7001", "9461") }, signs: []sign{
		{command: "--metrics-addr", live: stopped, logs: "metrics at"},
		{command: "curl", prints: `"job": ?"flights"`},
	}},
	{page: "docs/postgres.md", apart: true, signs: []sign{
		{command: "feeds.flights", query: "SELECT count(*) FROM feeds.flights", want: allFlights},
		{query: countFlights, want: allFlights},
	}},
	{page: "docs/rejects.md", set: setNotANumber, signs: []sign{
		{command: "--json", prints: `"reason": ?"not_json`},
		{command: "sed", query: "SELECT id, alt FROM flights", want: "BA1|NULL"},
		{command: "--to flights.db", prints: "1 +not_json"},
		{command: "DELETE", query: "SELECT count(*) FROM weir_rejects", want: "0", db: "flights.db"},
	}},
	{page: "docs/replay.md", set: setReplayed, signs: []sign{
		{command: "weir replay", live: "0", logs: "serving at"},
		{command: "weir sync", live: stopped, query: "SELECT count(*) > 0 FROM flights", want: "1"},
		{command: "watch", live: "0", prints: "flights"},
	}},
	{page: "docs/spool.md", set: setSpooled, signs: []sign{
		{command: "weir sync", live: stopped, ends: true, query: "SELECT id, gate FROM flights ORDER BY id", want: "BA1|7 BA2|NULL"},
		{command: "weir verify", prints: "2 rows"},
	}},
	{page: "docs/verify.md", set: setCaptured, signs: []sign{
		{command: "weir verify", prints: "2 rows"},
		{command: "explain BAW117", prints: "BAW117"},
		{command: "explain BA,117", prints: "captures.jsonl:8"},
	}},
	{page: "docs/versions.md", set: setVersioned, signs: []sign{
		follows("tls://", ""),
		{command: "backfill", query: "SELECT id, dest FROM flights WHERE dest IS NOT NULL", want: "BA1|KJFK"},
	}},
	{page: "docs/cli/weir.md", set: setFirst, signs: []sign{
		follows("tail", ""),
		follows("tcp://", "t:"),
		{command: "postgres", query: countFlights, want: allFlights},
		{command: "weir status", prints: "flights"},
		{query: countFlights, want: allFlights},
	}},
	{page: "docs/cli/weir_bench.md", apart: true, signs: []sign{{live: stopped, logs: firstWay}}},
	{page: "docs/cli/weir_config_check.md", set: setTested, signs: []sign{{prints: "is right"}}},
	{page: "docs/cli/weir_config_test.md", set: setTested, signs: []sign{{prints: "ok: a gate"}}},
	{page: "docs/cli/weir_explain.md", set: setExplained, signs: []sign{
		{command: "BAW1174", prints: "BAW1174-1795183537-schedule-0424"},
		{command: "BA,117", prints: "117"},
	}},
	{page: "docs/cli/weir_forget.md", set: setSynced, signs: []sign{{query: "SELECT count(*) FROM weir_checkpoints", want: "0"}}},
	{page: "docs/cli/weir_replay.md", set: setReplayed, signs: []sign{
		{command: "10x", live: "0", prints: "^{"},
		{command: "tcp-listen", live: "0", logs: "serving at"},
		{command: "tls-listen", live: "0", logs: "serving at"},
	}},
	{page: "docs/cli/weir_status.md", set: setNotANumber, signs: []sign{{query: "SELECT id, alt FROM flights", want: "BA1|NULL"}}},
	{page: "docs/cli/weir_sync.md", set: setSynopsis, apart: true, signs: []sign{
		{command: "carrier,flight", live: stopped, query: "SELECT carrier, flight, gate FROM feed ORDER BY flight", want: "BA|117|7 BA|118|8"},
		{command: "feeds.flights", query: "SELECT count(*) FROM feeds.flights", want: allFlights},
		{command: "sync flights.jsonl.gz", query: countFlights, want: allFlights},
		follows("--partitions", ""),
		fills("", ""),
	}},
	{page: "docs/cli/weir_verify.md", set: setSynced, signs: []sign{
		{command: "flights.jsonl.gz", prints: "44 rows"},
		{command: "captures", prints: "2 rows"},
	}},
}

func setReadme(s *scene) {
	s.file("captures/1.jsonl", gates(""))
	s.file("feed.jsonl", gates(""))
	s.feeds("feed.example 4000", gates("n:"))
	s.feeds("tls://feed.example:4000", gates("t:"))
	s.hosts = append(s.hosts, "kafka://broker.example", "kafka://"+topics(s, 1, "flights").Addr())
}

// topics starts a broker that has a feed in each of some topics.
func topics(s *scene, partitions int32, names ...string) *testkafka.Cluster {
	c := testkafka.Start(s, kfake.SeedTopics(partitions, names...))
	for _, name := range names {
		c.Produce(name, 0, strings.Split(strings.TrimSpace(gates("")), "\n")...)
	}
	return c
}

func setRecipes(s *scene) {
	feed := gates("")
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
	s.Cleanup(web.Close)
	s.hosts = append(s.hosts, "https://api.example", web.URL)
	switch {
	case strings.Contains(s.printed, "kcat"):
		s.hosts = append(s.hosts, "broker.example:9092", topics(s, 1, "flights").Addr())
	case strings.Contains(s.printed, "mosquitto"):
		_, port, _ := net.SplitHostPort(publisher(s, feed))
		s.hosts = append(s.hosts, "mqtt.example", "127.0.0.1", "1883", port)
	}
	s.file("array.json", "[\n"+strings.ReplaceAll(strings.TrimSpace(feed), "\n", ",\n")+"\n]\n")
	s.file("pretty.json", strings.ReplaceAll(feed, ",", ",\n "))
	s.file("flights.csv", "id,alt,gate\nBA1,35000,7\nBA2,100,\n")
	schema := `{"type":"SCHEMA","stream":%q,"key_properties":["id"],"schema":{"properties":{"id":{"type":"string"},"alt":{"type":"integer"},"gate":{"type":"string"}}}}` + "\n"
	s.file("tap.jsonl", fmt.Sprintf(schema, "flights")+fmt.Sprintf(schema, "other")+`{"type":"RECORD","stream":"flights","record":{"id":"BA1","alt":35000,"gate":"7"}}`+"\n"+
		`{"type":"RECORD","stream":"flights","record":{"id":"BA2","alt":100}}`+"\n"+`{"type":"RECORD","stream":"other","record":{"id":"x"}}`+"\n"+`{"type":"STATE","value":{}}`+"\n")
	s.file("events.json", `{"payload":{"op":"c","before":null,"after":{"id":"BA1","alt":1,"gate":"7"}}}`+"\n"+`{"op":"c","after":{"id":"BA3","alt":1}}`+"\n"+
		`{"op":"u","before":{"id":"BA1"},"after":{"id":"BA1","alt":35000}}`+"\n"+`{"op":"d","before":{"id":"BA3","alt":1},"after":null}`+"\n"+`{"op":"c","after":{"id":"BA2","alt":100}}`+"\n")
	if packed := regexp.MustCompile(`^(xz|bzip2) -dc`).FindStringSubmatch(s.printed); packed != nil {
		s.file("flights.jsonl", feed)
		s.Check(exec.Command(tool(s, packed[1]), s.Path("flights.jsonl")).Run())
	}
}

// plays has a replay send a feed in the place of FlightAware's.
func (s *scene) plays(feed string) {
	replay := s.Start("replay", feed, "--feed", "firehose", "--to", "tls-listen://127.0.0.1:0", "--tls-cert", "cert.pem", "--tls-key", "key.pem")
	s.hosts = append(s.hosts, "tls://firehose.flightaware.com", "tls://"+replay.Serves(), "FH_USERNAME=… FH_APIKEY=…", "FH_USERNAME=somebody FH_APIKEY=s3cret")
	s.trust()
}

func setFirehose(s *scene) {
	s.file("captured.jsonl", read(s, "../../testdata/firestarter/feed.jsonl"))
	s.plays("captured.jsonl")
	s.file("contrib/firestarter.yaml", s.local(read(s, "../../contrib/firestarter.yaml")))
}

func setKafka(s *scene) {
	if strings.Contains(s.printed, "kafka+tls") {
		c, producer := secureKafka(s.Folder, "flights", "arrivals")
		for line := range strings.Lines(gates("")) {
			c.Send(producer, &kgo.Record{Topic: "flights", Value: []byte(line)})
		}
		s.hosts = append(s.hosts, "kafka+tls://b1", "kafka+tls://"+c.Addr())
		s.env = append(s.env, "KAFKA_USERNAME=u", "KAFKA_PASSWORD=p")
		s.trust()
		s.file("air.yaml", "tables:\n  flights: {key: id}\n")
		return
	}
	addr := topics(s, 4, "flights", "feeds.flights").Addr()
	s.hosts = append(s.hosts, "kafka://b1:9092,b2:9092", "kafka://"+addr, "kafka://b1", "kafka://"+addr)
}

func setLiveFeeds(s *scene) {
	s.feeds("tls://feed.example:4000", gates(""))
	s.file("firehose.jsonl", strings.ReplaceAll(gates(""), `{`, `{"type":"flightplan",`))
	s.plays("firehose.jsonl")
	s.ports("4000")
	s.file("flights.jsonl", gates("s:"))
}

func setNewTable(s *scene) {
	s.file("feed.jsonl", `{"type":"gate","id":"BA1","gate":"7"}`+"\n"+`{"type":"position","id":"BA1","alt":35000}`+"\n")
	tables := "source: feed.jsonl\nto: flights.db\ntables:\n  flights: {key: id, when: {type: gate}, columns: {id, gate}}\n"
	s.file("weir.yaml", tables)
	s.weir("sync", "--config", "weir.yaml")
	s.file("weir.yaml", tables+"  positions: {key: id, when: {type: position}, columns: {id, alt: as integer}}\n")
}

func setNotANumber(s *scene) {
	s.file("flights.jsonl", `{"id":"BA1","alt":NaN}`+"\n")
	s.weir("sync", "flights.jsonl", "--to", "flights.db")
	s.hosts = append(s.hosts, "sed …", "sed 's/NaN/null/'")
}

func setReplayed(s *scene) {
	s.wholeFeed()
	s.Check(os.Mkdir(s.Path("testdata"), 0o700))
	s.Check(os.Symlink("../flights.jsonl.gz", s.Path("testdata/flights.jsonl.gz")))
	s.ports("4000", "1501")
}

func setExplained(s *scene) {
	s.wholeFeed()
	s.file("captures/1.jsonl.zst", carriers)
}

func setSpooled(s *scene) {
	s.feeds("tls://feed.example:4000", gates(""))
	s.hosts = append(s.hosts, "/var/spool", s.Dir+"/spool", "/srv", s.Dir)
}

func setCaptured(s *scene) {
	s.hosts = append(s.hosts, "/srv", s.Dir)
	feed := strings.ReplaceAll(gates(""), "BA1", "BAW117")
	s.file("captures/1.zst", feed)
	s.file("feed.jsonl", feed)
	s.weir("sync", "feed.jsonl", "--to", "flights.db", "--table", "flights")
	s.file("captures.jsonl", strings.Repeat(`{"type":"flifo","id":"BA1"}`+"\n", 6)+`{"type":"offblock","id":"BA1","clock":1589549500}`+"\n"+`{"id":"BA2","carrier":"BA","flight":117}`+"\n")
	s.file("flights.yaml", "tables:\n  flights:\n    key: id\n    columns: {id, actual_out: {from: clock as timestamp, when: {type: offblock}}}\n")
}

func setVersioned(s *scene) {
	s.feeds("tls://feed.example:4000", gates(""))
	s.file("captures/1.jsonl.zst", `{"id":"BA1","pitr":"1","gate":"6","dest":"KJFK"}`+"\n")
}

func setFirst(s *scene) {
	s.file("feed.log", gates(""))
	s.feeds("tcp://localhost:4000", gates("t:"))
}

func setTested(s *scene) {
	s.file("weir.yaml", "to: t.db\ntables:\n  flights: {key: id}\ntests:\n- name: a gate\n  feed: |\n    {\"id\":\"BA1\",\"gate\":\"7\"}\n  want:\n    flights: [{id: BA1, gate: \"7\"}]\n")
}

func setSynced(s *scene) {
	s.weir("sync", "flights.jsonl.gz", "--to", "flights.db")
	if s.url != "" {
		s.file("captures/1.jsonl.zst", gates(""))
		s.weir("sync", "captures/1.jsonl.zst", "--to", s.url, "--table", "flights")
	}
}

func setSynopsis(s *scene) {
	s.file("captures/1.jsonl.zst", gates(""))
	s.file("feed.jsonl", carriers)
	s.feeds("feed.example 4000", gates(""))
	if strings.Contains(s.printed, "kafka") {
		setKafka(s)
	}
}

// publisher serves MQTT: to each subscriber it sends the lines of a feed. It returns its address.
func publisher(t testing.TB, feed string) string {
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
