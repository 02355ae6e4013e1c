package envelope

import (
	"encoding/json"
	"slices"
)

// DetectPreset returns the name of the preset whose tool sends such messages, or "" if none does. A message must have
// all fields that the tool always sends.
func DetectPreset(message []byte) string {
	var m fields
	if json.Unmarshal(message, &m) != nil {
		return ""
	}
	if payload := m.object("payload"); payload != nil && len(m) <= 2 {
		m = payload
	}
	for _, s := range signs {
		if s.of(m) {
			return s.envelope
		}
	}
	return ""
}

// signs recognize the messages of CDC tools; the first match counts.
var signs = []struct {
	envelope string
	of       func(m fields) bool
}{
	{"debezium-mysql", func(m fields) bool {
		source := m.object("source")
		return m.text("op", "c", "u", "d", "r", "t") && source.text("db") && source["schema"] == nil
	}},
	{"debezium", func(m fields) bool {
		return m.text("op", "c", "u", "d", "r", "t") && m.object("source") != nil && (m.has("before") || m.has("after"))
	}},
	{"debezium-flat", func(m fields) bool {
		return m.text("__deleted", "true", "false") || m.text("__op", "c", "u", "d", "r") && m.text("__table")
	}},
	{"canal", func(m fields) bool { return m.text("database") && m.text("table") && m.has("isDdl", "data") }},
	{"maxwell", func(m fields) bool {
		return m.text("database") && m.text("table") && m.text("type", "insert", "update", "delete", "bootstrap-insert") && m.object("data") != nil
	}},
	{"wal2json", func(m fields) bool {
		if m.text("action", "B", "C") { // a transaction begins, or is committed
			return !m.hasOther("action", "xid", "timestamp", "origin", "lsn", "nextlsn")
		}
		return m.text("action", "I", "U", "D", "T") && m.text("schema") && m.text("table")
	}},
	{"dms", func(m fields) bool {
		about := m.object("metadata")
		return m.object("data") != nil && about.text("operation") && about.text("table-name")
	}},
	{"mongodb", func(m fields) bool {
		return m.text("operationType", "insert", "update", "replace", "delete") && m.object("ns").text("coll") && m.object("documentKey") != nil
	}},
	{"mongoexport", func(m fields) bool { return m.object("_id").text("$oid") }},
	{"airbyte", func(m fields) bool { return m.text("type", "RECORD") && m.object("record").text("stream") }},
	{"singer", func(m fields) bool {
		return m.text("stream") && (m.text("type", "RECORD") && m.object("record") != nil || m.text("type", "SCHEMA") && m.object("schema") != nil)
	}},
	{"cloudevents", func(m fields) bool {
		return m.text("specversion") && m.text("type") && m.text("source") && m.text("id")
	}},
}

// fields are the fields of an object.
type fields map[string]json.RawMessage

// has reports whether all of the names exist.
func (m fields) has(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return m[name] == nil })
}

// hasOther reports whether any other names exist.
func (m fields) hasOther(names ...string) bool {
	for name := range m {
		if !slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// text reports whether a field is a string, and one of these if any are given.
func (m fields) text(name string, of ...string) bool {
	var text *string
	return json.Unmarshal(m[name], &text) == nil && text != nil && (len(of) == 0 || slices.Contains(of, *text))
}

// object returns a field that is an object, else nil.
func (m fields) object(name string) (o fields) {
	_ = json.Unmarshal(m[name], &o) // if it is not an object, o stays nil
	return o
}
