package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirsync/weir/internal/config"
	"github.com/weirsync/weir/internal/envelope"
	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold"
	"github.com/weirsync/weir/internal/job"
	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/progress"
	"github.com/weirsync/weir/internal/quantity"
	"github.com/weirsync/weir/internal/schema"
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/spec"
)

func (e *env) configInitCommand() *cobra.Command {
	var table string
	lines := 10_000
	c := &cobra.Command{
		Use:   "init FEED",
		Short: "Draft a config file from a sample of a feed",
		Long: `Read the first lines of a feed and print a config file for it: its fields with
their types, the likely key, nested objects and arrays, the envelope of a change
data capture stream, and a test made of some of its lines. FEED is a file or a
glob (plain, gzip or zstd), or - for stdin; for a connection, capture lines first
(weir sync --capture).

The draft is what the sample shows. Read its comments, then:

    weir config check weir.yaml
    weir config test weir.yaml
    weir sync --config weir.yaml --dry-run`,
		Example: `  weir config init flights.jsonl.gz >weir.yaml
  head -1000 feed.log | weir config init - --table flights >weir.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			d, err := e.sampleFeed(c.Context(), args, table, lines)
			if err != nil {
				return err
			}
			text, err := e.draft(c, d)
			if err != nil {
				return err
			}
			_, err = e.stdout.Write(text)
			return err
		},
	}
	c.Flags().StringVar(&table, "table", "", "the `TABLE` to draft (default the name of the source file)")
	addWhole(c.Flags(), &lines, "lines", "read at most this many `LINES`")
	return c
}

// sampleBytes is the maximum size of a sample.
const sampleBytes = 64 << 20

// A feedSample holds the messages that config init reads.
type feedSample struct {
	args     []string
	table    string
	messages [][]byte
	size     int
	most     int // maximum number of messages
	rejected int64
	first    string // why the first rejected line was rejected
}

// errSampled ends reading when the sample is complete.
var errSampled = errors.New("the sample is complete")

// Map implements [job.Mapper]. It adds the message to the sample.
func (s *feedSample) Map(l *feed.Line, _ string, _ fold.Place) ([]fold.TableChange, int, error) {
	if len(s.messages) == s.most || s.size > sampleBytes {
		return nil, -1, errSampled
	}
	s.messages, s.size = append(s.messages, bytes.Clone(l.Text)), s.size+len(l.Text)
	return nil, -1, nil
}

// sampleFeed reads the first lines of a feed as sync would.
func (e *env) sampleFeed(ctx context.Context, args []string, table string, lines int) (*feedSample, error) {
	for _, a := range args {
		if spec.IsKafka([]string{a}) {
			return nil, usagef("%s is a topic: write some of its records into a file first, such as kcat -C -b BROKER -t TOPIC -e -c 10000 >feed.jsonl", spec.Redacted(a))
		}
		if sourceKinds.Traits(a).Live {
			return nil, usagef("%s is a connection: take a capture of it first, such as weir sync %s --capture captures …", spec.Redacted(a), spec.Redacted(a))
		}
	}
	if lines == 0 {
		return nil, usagef("--lines 0: a draft needs at least one line")
	}
	plan, err := e.newSpec().FoldFiles(args, &spec.Destination{Driver: caseDriver}, table)
	if err != nil {
		return nil, err
	}
	c := plan.Job
	if table == "" {
		table = freeName(c.Tables[0].Name)
	}
	s := &feedSample{args: args, table: table, most: lines}
	c.Kind = *e.surroundings().Kinds(&spec.KindOptions{File: file.Options{Stdin: e.stdin}}).Of(c.Sources[0])
	c.Buffer, c.Log, c.Mapping.Stream = foldBuffer, slog.New(slog.DiscardHandler), true
	c.Mapping.New = func(*feed.Names) (job.Mapper, error) { return s, nil }
	p := progress.New(table)
	err = job.Fold(ctx, c, []schema.Table{{Name: table}}, caseDriver.Caps, p, func(*sink.Flush) error { return nil }, sink.NoTables)
	if err != nil && !errors.Is(err, errSampled) {
		return nil, err
	}
	did := p.Snapshot()
	if s.rejected = did.Rejected; len(did.Reasons) > 0 {
		s.first = fmt.Sprintf("line %d: %s", did.Reasons[0].First.Line, did.Reasons[0].First.Detail)
	}
	s.messages = slices.DeleteFunc(s.messages, func(m []byte) bool { return len(bytes.TrimSpace(m)) == 0 || bytes.TrimSpace(m)[0] != '{' })
	if len(s.messages) == 0 {
		if s.first != "" {
			return nil, fmt.Errorf("%s has no message: weir reads JSON lines, an object per line (%s)", strings.Join(args, " "), s.first)
		}
		return nil, fmt.Errorf("%s has no lines", strings.Join(args, " "))
	}
	return s, nil
}

// freeName returns a table name without the prefixes that SQLite and weir reserve.
func freeName(table string) string {
	for _, reserved := range []string{"sqlite_", "weir_"} {
		if len(table) > len(reserved) && strings.EqualFold(table[:len(reserved)], reserved) {
			return freeName(table[len(reserved):])
		}
	}
	return table
}

// draft returns a config file with a test. The test expects the rows that the draft makes of its lines.
func (e *env) draft(c *cobra.Command, s *feedSample) (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "weir-init-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "weir.yaml")
	d := newDraft(s)
	if len(d.fields) == 0 {
		return nil, fmt.Errorf("the messages of %s have no fields", strings.Join(s.args, " "))
	}
	without := d.text(nil)
	if err := os.WriteFile(path, without, 0o600); err != nil {
		return nil, err
	}
	file, err := e.checkFile(path)
	if err != nil {
		return nil, fmt.Errorf("weir made an invalid draft, please report it with the feed: %s", strings.ReplaceAll(err.Error(), path, "weir.yaml"))
	}
	if d.refused, err = e.rejectedBy(c.Context(), file.Mapping, s.messages); err != nil {
		if c.Context().Err() != nil {
			return nil, err
		}
		d.stops = err.Error()
		e.log.Warn(fmt.Sprintf("the draft has no test: a sync with it would stop at %v", err))
		return d.text(nil), nil
	}
	without = d.text(nil)
	var want []wantedRows
	for _, limit := range testLimits {
		d.limit = limit
		d.testFeed = d.feed()
		if want, err = e.rowsOf(c.Context(), file.Mapping, d.testFeed); err != nil {
			return nil, fmt.Errorf("the draft cannot be applied to the feed: %w", err)
		}
		if len(want) > 0 {
			break
		}
	}
	if len(want) == 0 {
		e.log.Warn("the draft has no test: its first messages make no rows, or are longer than 40,000 bytes")
		return without, nil
	}
	text := d.text(want)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	quiet := *e
	var out bytes.Buffer
	quiet.stdout = &out
	if file, err = e.checkFile(path); err == nil && len(file.Cases) > 0 {
		err = quiet.runCases(c.Context(), file)
	}
	if err != nil { // a test cannot express every value that a database returns
		e.log.Warn(fmt.Sprintf("the draft has no test, as the rows of the sample cannot be written as one: %v %s", err, &out))
		return without, nil
	}
	return text, nil
}

// rejectedBy describes the messages that the tables of a mapping reject, or returns "".
func (e *env) rejectedBy(ctx context.Context, m *mapping.Mapping, messages [][]byte) (text string, err error) {
	err = e.applyCase(ctx, m, string(bytes.Join(messages, []byte{'\n'}))+"\n", 0, func(_ sink.Inspector, did *progress.Snapshot) error {
		if did.Rejected > 0 {
			text = fmt.Sprintf("%s of %s: %s", quantity.Grouped(did.Rejected), quantity.Count(int64(len(messages)), "message"), did.Reasons[0].First.Detail)
		}
		return nil
	})
	return text, err
}

// rowsOf returns the rows that a feed makes in empty tables.
func (e *env) rowsOf(ctx context.Context, m *mapping.Mapping, lines string) (want []wantedRows, err error) {
	err = e.applyCase(ctx, m, lines, 0, func(in sink.Inspector, _ *progress.Snapshot) error {
		st, err := in.Status(ctx)
		if err != nil {
			return err
		}
		for _, j := range st.Jobs {
			for _, name := range j.Tables {
				if t, err := sink.Table(ctx, in.Tables, name, nil); err != nil || !t.Exists {
					continue
				}
				rows, _, err := in.Sample(ctx, name, math.MaxInt)
				if err != nil {
					return err
				}
				if rows, err = config.SortRows(m, name, rows); err != nil {
					return err
				}
				if len(rows) > 0 {
					want = append(want, wantedRows{name, rows})
				}
			}
		}
		return nil
	})
	return want, err
}

// wantedRows are the rows that a test expects in a table, as JSON objects.
type wantedRows struct {
	table string
	rows  []string
}

// A draft is a config file generated from a sample.
type draft struct {
	*feedSample
	envelope string
	fields   []*sampledField // in order of appearance
	byName   map[string]*sampledField
	key      string
	keyWhy   string
	streams  []*streamTable // if the sample is a change stream
	kinds    *sampledField  // field that distinguishes kinds of messages, or nil
	refused  string         // what the draft rejects in the sample
	stops    string         // where and why a sync with the draft ends
	// jsonColumns have values that SQLite stores as JSON text.
	jsonColumns map[string]bool
	limit       testLimit
	testFeed    string
}

func newDraft(s *feedSample) *draft {
	d := &draft{feedSample: s, byName: map[string]*sampledField{}, jsonColumns: map[string]bool{}}
	envelopes := map[string]int{}
	for i, m := range s.messages {
		if i < 1000 {
			envelopes[envelope.DetectPreset(m)]++
		}
		d.addFields(m)
	}
	most := 0 // messages that match the most frequent envelope
	for _, name := range slices.Sorted(maps.Keys(envelopes)) {
		if n := envelopes[name]; name != "" && 4*n >= min(len(s.messages), 1000) && n > most {
			d.envelope, most = name, n
		}
	}
	d.streams = d.streamTables()
	if len(d.fields) > 0 {
		d.kinds = d.findKinds()
		d.key, d.keyWhy = d.findKey()
	}
	return d
}

// text returns the config file, with a test that expects the given rows; nil: without a test.
func (d *draft) text(want []wantedRows) []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Drafted by weir config init from %s of %s.", quantity.Count(int64(len(d.messages)), "message"), printable(strings.Join(d.args, " ")))
	line("# Other messages may differ: read the comments, and correct the file. Then: weir config check, weir config test,")
	line("# and weir sync --config with --dry-run.")
	if d.rejected > 0 {
		line("# %s of the sample cannot be read (%s), and would be rejected.", quantity.Count(d.rejected, "line"), oneLine(d.first))
	}
	if d.refused != "" {
		line("# This draft rejects %s.", oneLine(d.refused))
	}
	if d.stops != "" {
		line("# A sync with this draft would stop at %s", oneLine(d.stops))
	}
	sources := d.args
	if slices.Equal(sources, []string{"-"}) {
		line("# source: feed.jsonl                # a file, a glob, tcp://, kafka://…: docs/sources.md")
	} else if len(sources) == 1 {
		line("source: %s", quotedYAML(sources[0]))
	} else {
		line("source: [%s]", strings.Join(mapped(sources, quotedYAML), ", "))
	}
	line("%-32s  # or postgres://…", "to: "+quotedYAML(d.table+".db"))
	d.firehoseText(line)
	if d.envelope != "" {
		d.envelopeText(line)
	} else {
		d.tableText(line)
	}
	if want != nil {
		d.testText(line, want)
	}
	return b.Bytes()
}

// firehoseText writes the settings for FlightAware's feed.
func (d *draft) firehoseText(line func(string, ...any)) {
	for _, name := range []string{"pitr", "type"} {
		if f := d.byName[name]; f == nil || f.present*10 < len(d.messages)*9 {
			return
		}
	}
	if d.byName["ident"] == nil || d.envelope != "" {
		return
	}
	line("# The messages look like FlightAware's Firehose. To read it live:")
	line("#   source: tls://firehose.flightaware.com")
	line("#   feed: firehose")
	line("# examples/firehose/firestarter.yaml maps all of its messages to the tables of Firestarter: docs/firestarter.md.")
}

func (d *draft) envelopeText(line func(string, ...any)) {
	line("%-32s  # these look like its messages: docs/envelopes.md", "envelope: "+d.envelope)
	line("tables:")
	if slices.ContainsFunc(d.streams, func(t *streamTable) bool { return !t.keyIsID() }) {
		line("  # Tables whose key is not id. The stream does not name keys: these are the fewest fields that tell the rows of")
		line("  # the sample apart. Compare them with the primary keys of the source.")
		d.streamTablesText(line)
	}
	line("  # A table for each name in the stream that has no entry, with all of its columns. A table with a key of its own,")
	line("  # other names or fewer columns is one more entry:")
	line("  #   orders: {from: shop.orders, key: [order_id, line], unknown_fields: add}")
	line("  '*': {unknown_fields: add}")
}

func (d *draft) tableText(line func(string, ...any)) {
	line("tables:")
	line("  %s:", quotedYAML(d.table))
	line("    key: %s%s", quotedYAML(d.key), d.keyWhy)
	if k := d.kinds; k != nil {
		line("    # %q distinguishes kinds of messages: %s.", k.name, oneLine(k.valuesText(8)))
		if deletes := k.deletes(); deletes != "" {
			line("    # If %s removes the row:", oneLine(deletes))
			line("    # delete_when: {%s: %s}", quotedYAML(k.name), quotedYAML(deletes))
		}
		if without := d.kindsWithoutKey(); len(without) > 0 {
			line("    # These have no %s. To pass them over: ignore at the top of the file, as in", oneLine(d.key))
			line("    # ignore: {%s: [%s]}", quotedYAML(k.name), strings.Join(mapped(without, quotedYAML), ", "))
		}
		line("    # Take only some kinds, or write a table for each:")
		line("    # when: {%s: [%s]}", quotedYAML(k.name), quotedYAML(k.values()[0]))
	}
	if v := d.findVersion(); v != "" {
		line("    # If messages may come out of order, and %q grows with each change of a row:", v)
		line("    # version_field: %s", quotedYAML(v))
	}
	line("    unknown_fields: add               # fields that the sample lacks become columns; or ignore, reject")
	if most := len(d.fields) + maxDraftColumns; len(d.fields) > maxDraftColumns {
		line("    max_columns: %d%s# the sample has %s", most, strings.Repeat(" ", 17-len(strconv.Itoa(most))), quantity.Count(int64(len(d.fields)), "field"))
	}
	line("    columns:")
	for _, c := range d.columns() {
		line("      %s", c)
	}
	d.childrenText(line)
}

// testText writes the test's lines and the rows that they make.
func (d *draft) testText(line func(string, ...any), want []wantedRows) {
	line("tests:")
	line("  - name: the first messages of the sample")
	line("    feed: |")
	for l := range strings.Lines(d.testFeed) {
		line("      %s", strings.TrimSuffix(l, "\n"))
	}
	line("    want:                             # what they make now: correct it to what you want")
	for _, w := range want {
		line("      %s:", quotedYAML(w.table))
		for _, row := range w.rows {
			line("        - %s", d.flowRow(row))
		}
	}
}

// flowRow converts a JSON row to YAML and omits NULL.
func (d *draft) flowRow(row string) string {
	var cells []string
	for w := feed.Walk([]byte(row)); w.Next(); {
		if w.Depth != 1 {
			continue
		}
		name := memberName(w.Name)
		raw := w.Raw()
		if string(raw) == "null" {
			continue
		}
		if text := feed.TextOf(raw); d.jsonColumns[name] && json.Valid(text) {
			raw = text
		}
		cells = append(cells, quotedYAML(name)+": "+plainJSON(raw))
	}
	return "{" + strings.Join(cells, ", ") + "}"
}

// memberName decodes the inside of a JSON string.
func memberName(name []byte) string {
	return string(feed.Text(nil, slices.Concat([]byte{'"'}, name, []byte{'"'}), feed.String))
}

// plainJSON returns JSON that YAML can read, which has no surrogate pairs.
func plainJSON(raw []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	if w.Encode(v) != nil {
		return string(raw)
	}
	var plain strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if isSpecial(r) {
			fmt.Fprintf(&plain, `\u%04x`, r)
		} else {
			plain.WriteRune(r)
		}
	}
	return plain.String()
}

// isSpecial reports whether YAML cannot contain a character or treats it as a line break.
func isSpecial(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff || r >= 0xfffe && r <= 0xffff
}

// A testLimit limits the lines of a draft's test and the bytes of each line.
type testLimit struct{ lines, bytes int }

// testLimits are tried in order until the lines make a row. A stream may begin with other messages, and a test with
// wide messages is better than none.
var testLimits = []testLimit{{testLines, 4000}, {4 * testLines, 4000}, {16 * testLines, 4000}, {2, 40_000}}

const testLines = 6 // lines of the test, unless a row needs more

// feed returns the test's feed: the first messages that have the key, and some that update their rows.
func (d *draft) feed() string {
	var lines []string
	keys := map[string]int{} // lines per key
	updates := 0
	take := func(m []byte) {
		lines = append(lines, plainLine(m))
	}
	for _, m := range d.messages {
		if len(lines) == d.limit.lines {
			break
		}
		if len(m) > d.limit.bytes {
			continue
		}
		if d.envelope != "" {
			take(m)
			continue
		}
		key, ok := fieldText(m, d.key)
		switch {
		case !ok:
		case keys[key] == 0 && len(keys) < testLines/2, keys[key] > 0 && updates < testLines/2:
			if keys[key] > 0 {
				updates++
			}
			keys[key]++
			take(m)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// plainLine returns a message as a line of a YAML block.
func plainLine(m []byte) string {
	m = bytes.TrimSpace(m)
	for _, r := range string(m) {
		if isSpecial(r) {
			return escapedLine(m)
		}
	}
	return string(m)
}

// escapedLine escapes all non-ASCII characters of JSON.
func escapedLine(m []byte) string {
	var b strings.Builder
	for _, r := range string(m) {
		switch {
		case r == '\t' || r == '\r' || r == '\n':
			b.WriteByte(' ')
		case r >= ' ' && r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// fieldText returns the text of a message's field if it can be a key.
func fieldText(m []byte, name string) (value string, ok bool) {
	for w := feed.Walk(m); w.Next(); {
		if w.Depth != 1 {
			continue
		}
		kind, raw := w.Kind, []byte(nil)
		is := memberName(w.Name) == name
		if raw = w.Raw(); is {
			value, ok = string(feed.Text(nil, raw, kind)), kind != feed.Null && kind != feed.JSON && string(raw) != `""`
		}
	}
	return value, ok
}

// oneLine makes a text fit into a comment.
func oneLine(s string) string {
	return clipped(strings.Join(strings.Fields(printable(s)), " "), shownDetail)
}

// quotedYAML returns a text as YAML, quoted if YAML would read it as something else.
func quotedYAML(s string) string {
	if plainText.MatchString(s) && !slices.Contains(yamlWords, strings.ToLower(s)) {
		return s
	}
	return plainJSON(must(json.Marshal(s)))
}

// yamlWords are texts that some YAML parsers read as other values.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mapped[T any](all []T, f func(T) string) []string {
	out := make([]string, len(all))
	for i := range all {
		out[i] = f(all[i])
	}
	return out
}
