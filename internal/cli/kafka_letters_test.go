package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weirsync/weir/internal/testkafka"
	"github.com/weirsync/weir/internal/testweir"
)

// Rejected records come to the topic of dead letters as they were, whatever the table keeps of them.
func TestDeadLetters(t *testing.T) {
	testkafka.Each(t, func(t *testing.T, start testkafka.Starter) {
		intoBoth(t, func(t *testing.T, to func(testing.TB) string) { deadLetters(t, start(t, 2, "t", "dead"), to(t)) })
	})
}

func deadLetters(t *testing.T, c *testkafka.Cluster, to string) {
	f := testweir.New(t, to)
	at := time.UnixMilli(1_790_000_000_123)
	headers := []kgo.RecordHeader{{Key: "h", Value: []byte("v\xff")}, {Key: "weir.reason", Value: []byte("an old one")}}
	long := `{"id":5,"s":"` + strings.Repeat("x", 700_000) + `"}`
	values := []string{`{"id":1}`, `bad`, "\x00\x00\x00\x00\x07\x02\x0612", "", `{"id":2,"s":"a"}`, long, `{"id":3,"n":"NaN"}`, `{"id":4}`}
	var records []*kgo.Record
	for i, v := range values {
		records = append(records, &kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Key: fmt.Appendf(nil, "key\xff%d", i), Headers: headers, Value: []byte(v)})
	}
	records = append(records, &kgo.Record{Topic: "t", Partition: 1, Timestamp: at, Key: []byte("none")}, &kgo.Record{Topic: "t", Timestamp: at, Value: []byte("first")})
	c.Send(c.Client(), records...)
	f.Exec(`CREATE TABLE t (id BIGINT PRIMARY KEY NOT NULL, s VARCHAR, n VARCHAR CHECK (n <> 'NaN'))`)
	sync := newTopic(c, 2).sync(f.To, "t", "--partitions", "0-1", "--until-end", "--rejects", "topic:dead", "--max-line", "600kB", "--record-fields", "offset=s")
	f.Start(sync...).Exit(3, "7 of 10 lines were rejected")
	want := map[string]int{"1 1 not_json": 1, "1 2 not_json": 2, "1 3 truncated": 3, "1 5 too_long": 5, "1 6 database": 6, "1 8 not_object": 8, "0 0 not_json": 9}
	for _, r := range lettersOf(t, c, "dead") {
		reason, _, _ := strings.Cut(header(r, "weir.reason"), ":")
		what := header(r, "weir.partition") + " " + header(r, "weir.offset") + " " + reason
		i, ok := want[what]
		delete(want, what)
		if !ok {
			t.Errorf("a letter is of %s", what)
			continue
		}
		was := records[i]
		if string(r.Key) != string(was.Key) || (r.Key == nil) != (was.Key == nil) || string(r.Value) != string(was.Value) || (r.Value == nil) != (was.Value == nil) {
			t.Errorf("%s: the key is %q, the value %.100q", what, r.Key, r.Value)
		}
		if header(r, "weir.topic") != "t" || header(r, "weir.timestamp") != "1790000000123" || len(was.Headers) > 0 && header(r, "h") != "v\xff" || header(r, "weir.incomplete") != "-" {
			t.Errorf("%s: the headers are %q", what, r.Headers)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	f.Has("0", "SELECT count(*) FROM weir_rejects")
	f.Start(sync...).Exit(0)
	if n := len(lettersOf(t, c, "dead")); n != 7 {
		t.Errorf("after another run there are %d letters", n)
	}
}
