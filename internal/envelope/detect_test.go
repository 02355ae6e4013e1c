package envelope_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestOf has messages in the forms of the tools, and some that only look alike.
func TestOf(t *testing.T) {
	for line, want := range map[string]string{
		`{"before":null,"after":{"id":1},"source":{"schema":"public","table":"t"},"op":"c","ts_ms":1}`:                "debezium",
		`{"schema":{"type":"struct"},"payload":{"after":{"id":1},"source":{"schema":"public","table":"t"},"op":"r"}}`: "debezium",
		`{"before":null,"after":{"id":1},"source":{"db":"shop","table":"t","file":"binlog.1"},"op":"u","ts_ms":1}`:    "debezium-mysql",
		`{"id":1,"__deleted":"false"}`:      "debezium-flat",
		`{"id":1,"__op":"u","__table":"t"}`: "debezium-flat",
		`{"database":"d","table":"t","type":"update","ts":1,"data":{"id":1},"old":{"a":2}}`:   "maxwell",
		`{"id":3,"database":"d","table":"t","type":"UPDATE","isDdl":false,"data":[{"id":1}]}`: "canal",
		`{"action":"I","schema":"public","table":"t","columns":[]}`:                           "wal2json",
		`{"action":"B"}`: "wal2json",
		`{"action":"C","xid":7,"timestamp":"t","lsn":"0/1","nextlsn":"0/2"}`:                                "wal2json",
		`{"data":{"id":1},"metadata":{"operation":"insert","schema-name":"s","table-name":"t"}}`:            "dms",
		`{"_id":{"_data":"8"},"operationType":"insert","ns":{"db":"d","coll":"c"},"documentKey":{"_id":1}}`: "mongodb",
		`{"type":"RECORD","record":{"stream":"s","data":{"id":1}}}`:                                         "airbyte",
		`{"type":"RECORD","stream":"s","record":{"id":1}}`:                                                  "singer",
		`{"type":"SCHEMA","stream":"s","schema":{"properties":{}},"key_properties":["id"]}`:                 "singer",
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"id":1}}`:                           "cloudevents",

		`{"id":1,"op":"c","source":"web"}`:                           "",
		`{"id":1,"op":"delete","after":"x","source":{"schema":"s"}}`: "",
		`{"id":1,"payload":{"a":1},"schema":"v1"}`:                   "",
		`{"id":1,"database":"d","table":"t","type":"insert"}`:        "",
		`{"id":1,"action":"I","schema":1,"table":"t"}`:               "",
		`{"id":1,"action":"B"}`:                                      "",
		`{"id":1,"data":{"a":1},"metadata":{"operation":"insert"}}`:  "",
		`{"id":1,"type":"RECORD","record":"blue"}`:                   "",
		`{"id":"1","type":"t","source":"s","data":{}}`:               "",
		`{"__deleted":null}`:                                         "",
		`[1]`:                                                        "",
		`null`:                                                       "",
		``:                                                           "",
	} {
		if got := envelope.Of([]byte(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestOf_RealLines: messages that the tools have sent are told, and those of plain feeds are none.
func TestOf_RealLines(t *testing.T) {
	for path, want := range map[string]string{
		"debezium/precise.plain.tsv.gz":                    "debezium",
		"debezium/precise.schemas.tsv.gz":                  "debezium",
		"debezium/precise.flat.tsv.gz":                     "debezium-flat",
		"debezium/precise.flat-schemas.tsv.gz":             "debezium-flat",
		"envelopes/singer/tap-postgres-changes.jsonl":      "singer",
		"envelopes/singer/pipelinewise-tap-postgres.jsonl": "singer",
		"flights.jsonl.gz":                                 "",
	} {
		told := map[string]int{}
		for _, line := range lines(t, filepath.Join("..", "..", "testdata", path)) {
			if of := envelope.Of(line[bytes.LastIndexByte(line, '\t')+1:]); of != "" {
				told[of]++
			}
		}
		if want == "" && len(told) > 0 || want != "" && (told[want] == 0 || len(told) > 1) {
			t.Errorf("%s: %v, want %q", path, told, want)
		}
	}
}

// lines are those of a file.
func lines(t *testing.T, path string) (all [][]byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	testcheck.NoError(t, err)
	from := bufio.NewReader(bytes.NewReader(data))
	if filepath.Ext(path) == ".gz" {
		unzipped, err := gzip.NewReader(from)
		testcheck.NoError(t, err)
		from = bufio.NewReader(unzipped)
	}
	for {
		line, err := from.ReadBytes('\n')
		if len(line) > 0 {
			all = append(all, bytes.TrimSpace(line))
		}
		if err != nil {
			return all
		}
	}
}
