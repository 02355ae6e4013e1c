package mapping_test

import (
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/testcheck"
)

func paths(texts ...string) (all []mapping.Path) {
	for _, text := range texts {
		all = append(all, path(text))
	}
	return all
}

// changeStream is an envelope as Debezium has it.
func changeStream() *mapping.Envelope {
	return &mapping.Envelope{Unwrap: path("payload"), Table: paths("source.schema", "source.table"), Row: paths("after"), Old: path("before"),
		DeleteWhen: when("op=d"), TruncateWhen: when("op=t"), Ignore: when("!op"), Absent: []string{"?"}}
}

func TestEnvelope_Rows(t *testing.T) {
	m := mapping.Mapping{Envelope: changeStream(), Tables: []mapping.Table{
		{Name: "a", Key: []string{"id"}},
		{Name: "b", From: []string{"s.b"}, Key: []string{"k"}, Columns: columns("k: id as integer, op: $.op"), Rest: fold.IgnoreColumns},
	}}
	want(t, mapped(t, m,
		`{"op":"c","after":{"id":1,"v":"x"},"source":{"schema":"s","table":"a"}}`,
		`{"schema":{"after":1},"payload":{"op":"c","after":{"id":1,"v":"x"},"source":{"table":"a"}}}`,
		`{"op":"u","before":{"id":1,"v":"x"},"after":{"id":1,"v":"?","w":null},"source":{"table":"a"}}`,
		`{"op":"u","before":{"id":1},"after":{"id":2,"v":"y"},"source":{"table":"a"}}`,
		`{"op":"d","before":{"id":2,"v":null},"after":null,"source":{"table":"a"}}`,
		`{"op":"c","after":{"id":"7","v":1},"source":{"schema":"s","table":"b"}}`,
		`{"op":"u","before":{"id":"7"},"after":{"id":8},"source":{"schema":"s","table":"b"}}`,
		`{"op":"u","before":{"id":"8"},"after":{"id":8},"source":{"schema":"s","table":"b"}}`,
		`{"op":"c","after":{"id":"7","v":1},"source":{"schema":"other","table":"b"}}`,
		`{"ts_ms":1}`,
		`{"op":"c","after":null,"source":{"table":"a"}}`,
		`{"op":"d","before":null,"source":{"table":"a"}}`,
		`{"op":"c","after":7,"source":{"table":"a"}}`,
		`{"op":"c","after":{"v":7},"source":{"table":"a"}}`,
	), `
		a id=1 v="x"
		a id=1 v="x"
		a id=1 w=null
		delete a id=1
		a id=2 v="y"
		delete a id=2 v=null
		b k=7 op="c"
		delete b k=7
		b k=8 op="u"
		b k=8 op="u"
		no table takes table=other.b
		ignored
		error: the message has no row (after)
		error: the message has no row (after, before)
		error: the row is no object but 7
		error: table "a": the key column "id" has no value in this message`)
}

// TestEnvelope_Unknown: a message is no update because it is nothing else.
func TestEnvelope_Unknown(t *testing.T) {
	e := changeStream()
	e.WriteWhen = when("op=c")
	m := mapping.Mapping{Envelope: e, Tables: []mapping.Table{{Name: "a", Key: []string{"id"}}}}
	want(t, mapped(t, m,
		`{"op":"c","after":{"id":1},"source":{"table":"a"}}`,
		`{"op":"d","before":{"id":1},"source":{"table":"a"}}`,
		`{"op":"x","after":{"id":1},"source":{"table":"a"}}`,
		`{"op":null,"after":{"id":1},"source":{"table":"a"}}`,
		`{"op":"x","after":{"id":1},"source":{"table":"b"}}`,
	), `
		a id=1
		delete a id=1
		error: what the message does to its row is not known: op is "x" (write_when)
		error: what the message does to its row is not known: op is null (write_when)
		no table takes table=b`)
	e.Ignore = nil
	want(t, mapped(t, m, `{"after":{"id":1},"source":{"table":"a"}}`), `error: what the message does to its row is not known: op is absent (write_when)`)
}

func TestEnvelope_Truncation(t *testing.T) {
	child := mapping.Table{Name: "items", Of: "a", Each: path("items"), Set: mapping.ReplaceSet, Key: []string{"n"}, Columns: columns("n")}
	m := mapping.Mapping{Envelope: changeStream(), Tables: []mapping.Table{{Name: "a", Key: []string{"id"}}, child, {Name: "all", From: []string{"*"}, Key: []string{"id"}, When: when("op!=t")}, {Name: "both", From: []string{"c", "d"}, Key: []string{"id"}}}}
	want(t, mapped(t, m, `{"op":"t","source":{"table":"a"}}`, `{"op":"t","source":{"table":"c"}}`), `
		truncate a
		truncate items
		error: table "both": it may have rows of several tables of the stream, and "c" alone was truncated: which of them to remove is not known`)
	m.Tables = []mapping.Table{{Name: "a", Key: []string{"id"}, Version: path("$.v"), Scope: fold.ColumnScope}}
	want(t, mapped(t, m, `{"op":"t","v":1,"source":{"table":"a"}}`), `error: table "a": a truncation has no place among versions: without them it counts where it is in the stream`)
}

// TestEnvelope_LongNames: what is said and counted of a name has an end.
func TestEnvelope_LongNames(t *testing.T) {
	m := mapping.Mapping{Envelope: changeStream(), Tables: []mapping.Table{{Name: "a", Key: []string{"id"}}}}
	want(t, mapped(t, m, `{"op":"c","after":{"id":1},"source":{"table":"`+strings.Repeat("\u00e4", 2000)+`"}}`), "no table takes table="+strings.Repeat("ä", 48)+"...")
}

func TestEnvelope_EachAndPairs(t *testing.T) {
	m := mapping.Mapping{Tables: []mapping.Table{{Name: "a", Key: []string{"id"}}},
		Envelope: &mapping.Envelope{Table: paths("table"), Each: path("data"), Old: path("old"), DeleteWhen: when("type=DELETE")}}
	want(t, mapped(t, m,
		`{"table":"a","type":"UPDATE","data":[{"id":1,"v":2},{"id":3}],"old":[{"v":1},{"id":4}]}`,
		`{"table":"a","type":"DELETE","data":[{"id":1,"v":2},{"id":3}],"old":null}`,
		`{"table":"a","type":"INSERT","data":[]}`,
		`{"table":"a","type":"INSERT","data":null}`,
	), `
		a id=1 v=2
		delete a id=4
		a id=3
		delete a id=1 v=2
		delete a id=3
		no row
		error: data is no array, which has the rows`)
	m.Envelope = &mapping.Envelope{Table: paths("table"), Row: paths("columns"), Old: path("identity"), DeleteWhen: when("action=D")}
	want(t, mapped(t, m,
		`{"action":"U","table":"a","columns":[{"name":"id","type":"integer","value":2},{"name":"v \"w\"","value":null}],"identity":[{"name":"id","type":"integer","value":1}]}`,
		`{"action":"D","table":"a","identity":[{"name":"id","type":"integer","value":1}]}`,
		`{"action":"U","table":"a","columns":[7]}`,
	), `
		delete a id=1
		a id=2 v "w"=null
		delete a id=1
		error: an array of fields has objects with name and value, or names of fields that are NULL, and not 7`)
}

func TestEnvelope_KeyAndUnset(t *testing.T) {
	m := mapping.Mapping{Tables: []mapping.Table{{Name: "a", Key: []string{"id"}, Columns: columns("id: _id.$oid as text, city: address.city; \"address.city\""), Rest: fold.AddColumns}},
		Envelope: &mapping.Envelope{Table: paths("ns.coll"), Row: paths("full", "changed"), Key: path("key"), Unset: path("removed"), DeleteWhen: when("op=delete")}}
	want(t, mapped(t, m,
		`{"op":"insert","ns":{"coll":"a"},"key":{"_id":{"$oid":"7"}},"full":{"_id":{"$oid":"7"},"address":{"city":"x"},"v":1}}`,
		`{"op":"update","ns":{"coll":"a"},"key":{"_id":{"$oid":"7"}},"full":null,"changed":{"address.city":"y"},"removed":["v","w"]}`,
		`{"op":"update","ns":{"coll":"a"},"key":{"_id":{"$oid":"7"}},"changed":{"address.zip":"y"}}`,
		`{"op":"delete","ns":{"coll":"a"},"key":{"_id":{"$oid":"7"}}}`,
	), `
		a id="7" city="x" v=1
		a id="7" city="y" v=null w=null
		error: the field "address.zip" is part of a column's value, and weir sets whole columns: have the messages contain the whole row, or name a column for the field
		delete a id="7"`)
}

func TestEnvelope_Whole(t *testing.T) {
	m := mapping.Mapping{Tables: []mapping.Table{{Name: "a", Key: []string{"_id"}, Rest: fold.AddColumns}},
		Envelope: &mapping.Envelope{Table: paths("coll"), Row: paths("full", "changed"), Key: path("key"), Unset: path("removed"), Partial: path("cut"), ExtendedJSON: true,
			DeleteWhen: when("op=delete"), ReplaceWhen: when("op=replace")}}
	want(t, mapped(t, m,
		`{"op":"replace","coll":"a","key":{"_id":{"$oid":"7"}},"full":{"_id":{"$oid":"7"},"n":{"$numberLong":"12"},"d":{"$numberDecimal":"1.50"},"nan":{"$numberDouble":"NaN"},"x.y":1},"cut":[{"field":"n"}],"removed":["x.z"]}`,
		`{"op":"update","coll":"a","key":{"_id":{"$oid":"7"}},"changed":{"at":{"$date":{"$numberLong":"1589549400500"}},"on":{"$date":"2020-05-15T13:30:00Z"},"ms":{"$date":-1},"b":{"$binary":{"base64":"AQI=","subType":"00"}},"u":{"$uuid":"3b241101-e2bb-4255-8caf-4136c566a962"}},"removed":["n"],"cut":[]}`,
		`{"op":"update","coll":"a","key":{"_id":{"$oid":"7"}},"changed":{"a":{"b":{"$numberInt":"1"}},"t":{"$timestamp":{"t":1,"i":2}},"v":{"$undefined":true},"e":{}}}`,
		`{"op":"update","coll":"a","key":{"_id":{"$oid":"7"}},"changed":{},"cut":[{"field":"vacation_time","newSize":36}]}`,
		`{"op":"delete","coll":"a","key":{"_id":{"$oid":"7"}}}`,
	), `
		replace a _id="7" _id="7" n=12 d=1.50 nan="NaN" x.y=1
		a n=null _id="7" at="2020-05-15T13:30:00.5Z" on="2020-05-15T13:30:00Z" ms="1969-12-31T23:59:59.999Z" b="AQI=" u="3b241101-e2bb-4255-8caf-4136c566a962"
		a _id="7" a={"b":{"$numberInt":"1"}} t={"$timestamp":{"t":1,"i":2}} v=null e={}
		error: the message changes parts of values (cut), and weir sets whole columns: have the messages contain the whole row
		delete a _id="7"`)
}

func TestEnvelope_Versions(t *testing.T) {
	f := func(line, want string, parts ...string) {
		t.Helper()
		e := changeStream()
		for _, text := range parts {
			v, err := mapping.ParseVersionPart(text)
			if err != nil || v.String() != text {
				t.Fatal(v, err)
			}
			e.Version = append(e.Version, v)
		}
		m := mapping.Mapping{Envelope: e, Tables: []mapping.Table{{Name: "a", Key: []string{"id"}, Version: mapping.EnvelopeVersion, Scope: fold.ColumnScope}}}
		got := mapped(t, m, `{"op":"c","after":{"id":1},"source":{"table":"a"},`+line+"}")
		if _, version, _ := strings.Cut(got, " version "); version != want && got != "error: "+want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	f(`"lsn":"16/B374D848"`, "97500059720", "lsn as lsn")
	f(`"lsn":"16B374D848"`, `lsn as lsn is no part of a version: "16B374D848"`, "lsn as lsn")
	f(`"t":{"$timestamp":{"t":1589549400,"i":3}}`, "6827062688376422403", "t as mongo_ts")
	f(`"t":{"$timestamp":{"t":1589549400}}`, `t as mongo_ts is no part of a version: {"$timestamp":{"t":1589549400}}`, "t as mongo_ts")
	f(`"file":"bin.000003","pos":154,"row":2`, `"00000000000000000003/00000000000000000154/00000000000000000002"`, "file as binlog", "pos", "row")
	f(`"file":"bin.000003","pos":154`, `"00000000000000000003/00000000000000000154/00000000000000000000"`, "file as binlog", "pos", "row")
	f(`"p":"master.1000000:154"`, `"00000000000001000000/00000000000000000154"`, "p as binlog")
	f(`"p":"master:x"`, `p as binlog is no part of a version: "master:x"`, "p as binlog")
	f(`"t":"2020-05-15T13:30:00.5Z"`, "1589549400500000000", "t as timestamp")
	f(`"t":"2020-05-15T15:30:00+02:00"`, "1589549400000000000", "t as timestamp")
	f(`"t":"1969-12-31T23:59:59Z"`, `t as timestamp is no part of a version: "1969-12-31T23:59:59Z"`, "t as timestamp")
	f(`"t":"2020-05-15T13:30:00.1234567891Z"`, `t as timestamp is no part of a version: "2020-05-15T13:30:00.1234567891Z"`, "t as timestamp")
	f(`"t":"x"`, `t as timestamp is no part of a version: "x"`, "t as timestamp")
	f(`"a":-1,"b":1`, `a is no part of a version: -1`, "a", "b")
	if _, err := mapping.ParseVersionPart("a as integer"); err == nil {
		t.Error("a version that is an integer")
	}
}

// TestEnvelope_TwoSchemas: a bare name is of one schema, and with one table a stream has one.
func TestEnvelope_TwoSchemas(t *testing.T) {
	f := func(e *mapping.Envelope, from []string, want string, tables ...string) {
		t.Helper()
		m := mapping.Mapping{Envelope: e, Tables: []mapping.Table{{Name: "a", From: from, Key: []string{"id"}, When: when("skip!=1")}}}
		var lines []string
		for _, name := range tables {
			schema, table, _ := strings.Cut(name, ".")
			lines = append(lines, `{"op":"c","after":{"id":1},"source":{"schema":"`+schema+`","table":"`+table+`"}}`)
		}
		lines = append(lines, `{"op":"c","skip":1,"after":{"id":1},"source":{"schema":"other","table":"a"}}`) // which it does not take
		got := mapped(t, m, lines...)
		if _, why, _ := strings.Cut(got, "error: "); strings.SplitN(why+"\n", "\n", 2)[0] != want {
			t.Errorf("%v: %s", tables, got)
		}
	}
	f(changeStream(), nil, "", "x.a", "x.a")
	f(changeStream(), nil, `table "a": the stream has rows of "x.a" and of "y.a": from says which it takes, such as from: x.a`, "x.a", "y.a")
	f(changeStream(), []string{"a*"}, "", "x.a", "x.ab")
	f(changeStream(), []string{"a*"}, `table "a": the stream has rows of "x.a" and of "y.ab": from says which it takes, such as from: x.a`, "x.a", "y.ab")
	f(changeStream(), []string{"*.a"}, "", "x.a", "y.a")
	f(changeStream(), []string{"x.a", "y.a"}, "", "x.a", "y.a")
	one := changeStream()
	one.OneTable = true
	f(one, []string{"*"}, `the stream has rows of two tables, "x.a" and "x.b": choose one with --only, or name both in a config file`, "x.a", "x.b")
}

func TestEnvelope_Null(t *testing.T) {
	for _, e := range []*mapping.Envelope{nil, changeStream()} {
		names := &feed.Names{}
		plan, err := mapping.Compile(&mapping.Mapping{Envelope: e, Tables: []mapping.Table{{Name: "a", Key: []string{"id"}}}}, names, schema.Limits{})
		testcheck.NoError(t, err)
		var l feed.Line
		if l.Scan(feed.NewScanner(names), nil, []byte(" null\r")); !l.Null || l.Err == nil {
			t.Fatal(l.Null, l.Err)
		}
		if e != nil {
			if _, fate, err := plan.Map(&l, fold.Place{}, plan.NewScratch()); fate != mapping.Ignored || err != nil {
				t.Error(fate, err)
			}
		}
	}
}

// TestEnvelope_Tombstones: a tombstone has the key of a row and no table.
func TestEnvelope_Tombstones(t *testing.T) {
	f := func(want string, tables ...mapping.Table) {
		t.Helper()
		names := &feed.Names{}
		plan, err := mapping.Compile(&mapping.Mapping{Envelope: changeStream(), Tables: tables}, names, schema.Limits{})
		testcheck.NoError(t, err)
		var l feed.Line
		l.Scan(feed.NewScanner(names), nil, []byte(`{"id":7}`))
		l.Deletes = true
		rows, _, err := plan.Map(&l, fold.Place{}, plan.NewScratch())
		got := ""
		for i := range rows {
			got += strings.Join(show(plan, names, &rows[i]), "\n")
		}
		if got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	a, b := mapping.Table{Name: "a", Key: []string{"id"}}, mapping.Table{Name: "b", Key: []string{"id"}}
	f("delete a id=7", a)
	f("", a, b)
	a.Version = path("$.v")
	f("", a)
	a.Version, a.When = mapping.Path{}, when("source.table=a")
	f("", a)
}
