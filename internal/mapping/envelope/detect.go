package envelope

import (
	"encoding/json"
	"slices"
	"strings"
)

// DetectPreset returns the name of the preset whose tool sends such messages, or "" if none does. A message must have
// all fields that the tool always sends.
func DetectPreset(message []byte) string {
	var m map[string]any
	if json.Unmarshal(message, &m) != nil {
		return ""
	}
	if payload, is := m["payload"].(map[string]any); is && len(m) <= 2 {
		m = payload
	}
	for _, sign := range signs {
		preset, tests, _ := strings.Cut(sign, ": ")
		if !slices.ContainsFunc(strings.Fields(tests), func(test string) bool { return !holds(m, test) }) {
			return preset
		}
	}
	return ""
}

// signs recognize the messages of CDC tools: PATH is not null, !PATH is absent or null, and PATH=A,B is one of the
// texts. The first that holds counts.
var signs = []string{
	"debezium-mysql: op=c,u,d,r,t source.db !source.schema",
	"debezium: op=c,u,d,r,t source.table before",
	"debezium: op=c,u,d,r,t source.table after",
	"debezium-flat: __deleted=true,false",
	"debezium-flat: __op=c,u,d,r __table",
	"canal: database table isDdl data",
	"maxwell: database table data type=insert,update,delete,bootstrap-insert",
	"wal2json: action=B,C !id !type !table", // a transaction begins, or is committed
	"wal2json: action=I,U,D,T schema table !id",
	"dms: data metadata.operation metadata.table-name",
	"mongodb: operationType=insert,update,replace,delete ns.coll documentKey",
	"mongoexport: _id.$oid",
	"airbyte: type=RECORD record.stream",
	"singer: type=RECORD stream record",
	"singer: type=SCHEMA stream schema",
	"cloudevents: specversion type source id",
}

// holds reports whether a message passes a test of signs.
func holds(m map[string]any, test string) bool {
	path, not := strings.CutPrefix(test, "!")
	path, words, compares := strings.Cut(path, "=")
	var v any = m
	for name := range strings.SplitSeq(path, ".") {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	text, _ := v.(string)
	return (v == nil) == not && (!compares || slices.Contains(strings.Split(words, ","), text))
}
