package envelope

import (
	"strconv"
	"time"

	"github.com/weirsync/weir/internal/feed"
)

// appendPlain appends a value without the type wrapper of MongoDB's Extended JSON: numbers as numbers, times as RFC
// 3339, and identifiers, UUIDs and bytes (in base64) as strings. Other values, and values inside documents and
// arrays, are unchanged.
func appendPlain(dst, value []byte) []byte {
	name, of, kind := onlyMember(value)
	switch name {
	case "$oid", "$uuid", "$symbol", "$code":
		if kind == feed.String {
			return append(dst, of...)
		}
	case "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal":
		if kind != feed.String {
			break
		}
		text := of[1 : len(of)-1]
		if _, ok := feed.IsNumber(text); ok {
			return append(dst, text...)
		}
		return append(dst, of...) // NaN and Infinity
	case "$date":
		if kind == feed.String {
			return append(dst, of...)
		}
		if inner, text, kind := onlyMember(of); inner == "$numberLong" && kind == feed.String {
			of = text[1 : len(text)-1]
		}
		if ms, err := strconv.ParseInt(string(of), 10, 64); err == nil {
			return time.UnixMilli(ms).UTC().AppendFormat(dst, `"2006-01-02T15:04:05.999Z07:00"`)
		}
	case "$binary":
		if b := feed.Member(of, "base64"); kind == feed.JSON && b.Kind == feed.String {
			return append(dst, b.Value...)
		}
	case "$undefined":
		return append(dst, null...)
	}
	return append(dst, value...)
}

// onlyMember returns the member of an object with exactly one member; "" for other values.
func onlyMember(value []byte) (name string, raw []byte, kind feed.Kind) {
	if value[0] != '{' {
		return "", nil, 0
	}
	n := 0
	w := feed.Walk(value)
	for w.Next(); w.Next(); n++ {
		name, raw, kind = string(w.Name), w.Raw(), w.Kind
	}
	if n != 1 {
		return "", nil, 0
	}
	return name, raw, kind
}
