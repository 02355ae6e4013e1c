package torture

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/test/foldtest"
)

// A userColumn is a column of a table that a user made.
type userColumn struct {
	foldtest.Column
	decl  string
	same  func(want foldtest.Value, have cell) bool
	good  []string                                  // values that it accepts
	more  func(rnd *rand.Rand) string               // returns more of them; nil for none
	bad   []string                                  // values that its type rejects without the database
	wrong string                                    // a value that a constraint rejects, "" for none
	check func(row map[string]foldtest.Value) error // checks that constraint
	named bool                                      // set by every message, so it is never NULL
}

// A userTable is a table that a user made, with constraints.
type userTable struct {
	columns []userColumn
	before  []string // statements before its CREATE TABLE
	ending  string   // end of its CREATE TABLE
	byIndex bool     // its key is a unique index
	after   []string
	linked  bool // it has a unique column, and a foreign key to itself
}

func whole(v foldtest.Value, bits int) bool {
	text, ok := foldtest.Decimal(v.Text)
	if v.Kind == foldtest.String { // in its simplest spelling
		n, err := strconv.ParseInt(v.Text, 10, bits)
		return err == nil && strconv.FormatInt(n, 10) == v.Text
	}
	if v.Kind != foldtest.Number || !ok || v.Text == "-0" {
		return false
	}
	digits, exponent, _ := strings.Cut(text, "e")
	e, _ := strconv.Atoi(exponent)
	if e < 0 || e > 20 {
		return false
	}
	_, err := strconv.ParseInt(digits+strings.Repeat("0", e), 10, bits)
	return err == nil
}

func number(v foldtest.Value) bool {
	_, ok := foldtest.Decimal(v.Text)
	return ok && (v.Kind == foldtest.Number || v.Kind == foldtest.String)
}

func double(v foldtest.Value) bool {
	f, err := strconv.ParseFloat(v.Text, 64)
	text, _ := foldtest.Decimal(v.Text)
	return number(v) && err == nil && (f != 0 || text == "0")
}

func sameNumber(want foldtest.Value, have cell) bool {
	return foldtest.Value{Kind: foldtest.Number, Text: want.Text}.Is(have.text) && have.kind != "text"
}

func sameDouble(want foldtest.Value, have cell) bool {
	w, err := strconv.ParseFloat(want.Text, 64)
	h, herr := strconv.ParseFloat(have.text, 64)
	return err == nil && herr == nil && w == h
}

func sameText(want foldtest.Value, have cell) bool {
	if want.Kind == foldtest.JSON {
		return want.Is(have.text)
	}
	return have.kind == "text" && have.text == want.Text
}

func sameBool(want foldtest.Value, have cell) bool {
	return have.text == "true" == (want.Text == "true" || want.Text == "1")
}

func sameJSON(want foldtest.Value, have cell) bool {
	return foldtest.Value{Kind: foldtest.JSON, Text: want.JSON()}.Is(have.text)
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// userColumns are the columns that tables are made of, in addition to the key.
func userColumns(postgres bool) []userColumn {
	column := func(name, decl string, takes func(foldtest.Value) bool, same func(foldtest.Value, cell) bool, good, bad []string) userColumn {
		return userColumn{Column: foldtest.Column{Name: name, Takes: takes}, decl: decl, same: same, good: good, bad: bad}
	}
	words := func(rnd *rand.Rand) string { return value(rnd, texts) }
	all := []userColumn{
		column("t", "TEXT", nil, sameText, []string{`"x"`, "1.50", "true", `{"a":1}`, "1e3", `"007"`, "12345678901234567890"}, nil),
		column("f", "BOOLEAN", func(v foldtest.Value) bool {
			return v.Kind == foldtest.Bool || v.Kind == foldtest.Number && (v.Text == "0" || v.Text == "1")
		}, sameBool, []string{"true", "false", "0", "1"}, []string{"2", "[]", "1.5", `"maybe"`}),
	}
	all[0].more = words
	if postgres {
		i := column("i", "integer", func(v foldtest.Value) bool { return whole(v, 32) }, sameNumber, []string{"7", `"8"`, "9.0", "1e2", "-2147483648"}, []string{"1.5", `"x"`, "true", "3000000000", `"007"`, "[]", "-0"})
		b := column("b", "bigint", func(v foldtest.Value) bool { return whole(v, 64) }, sameNumber, []string{"7", "9223372036854775807", "9007199254740993", `"-3"`}, []string{"1.5", "9223372036854775808", "{}", `""`})
		d := column("d", "double precision", double, sameDouble, []string{"1.5", "1e23", `"2.50"`, "32.815236600469404", "7", "12345678901234567890.5", "-0.0"}, []string{`"x"`, "true", "1e400", "1e-400", "{}"})
		m := column("m", "numeric", number, sameNumber, []string{"1.5", "123456789012345678901234567890.123", `"2.50"`, "1e23", "0", "1e-400", "1e400"}, []string{`"x"`, "false", "[]", `""`})
		v := column("v5", "varchar(5)", func(v foldtest.Value) bool { return len([]rune(v.Text)) <= 5 }, sameText, []string{`"abcde"`, `"日本語"`, "12345", "true", `"\u0061bc"`}, []string{`"abcdef"`, "123456", `{"a":1}`})
		j := column("j", "jsonb", nil, sameJSON, []string{`{"b":1,"a":[1.50,"x"]}`, "7", `"x"`, "true", "[]", "1e3"}, nil)
		k := column("js", "json", nil, sameJSON, []string{`{"b":1,"a":[1.50,"x"]}`, "7", `"x"`, "true", "[]"}, nil)
		u := column("u", "uuid", func(v foldtest.Value) bool {
			return v.Kind == foldtest.String && uuid.MatchString(strings.ToLower(v.Text))
		},
			func(w foldtest.Value, h cell) bool { return h.text == strings.ToLower(w.Text) }, []string{`"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"`, `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12"`}, []string{`"x"`, "7", `""`})
		e := column("e", "mood", func(v foldtest.Value) bool { return v.Text == "sad" || v.Text == "glad" }, sameText, []string{`"sad"`, `"glad"`, `"s\u0061d"`}, []string{`"mad"`, "7", `""`})
		day := column("day", "date", nil, sameText, []string{`"2024-02-29"`, `"1999-12-31"`}, nil)
		day.wrong, day.check = `"2023-02-31"`, func(row map[string]foldtest.Value) error {
			if row["day"].Text == "2023-02-31" {
				return errors.New("no such day")
			}
			return nil
		}
		return append(all, i, b, d, m, v, j, k, u, e, day)
	}
	i := column("i", "INTEGER", func(v foldtest.Value) bool { return whole(v, 64) }, sameNumber, []string{"7", `"8"`, "9.0", "1e2", "9223372036854775807"}, []string{"1.5", `"x"`, "true", "9223372036854775808", `"007"`, "[]", "-0"})
	d := column("d", "REAL", double, sameDouble, []string{"1.5", "1e23", `"2.50"`, "32.815236600469404", "7", "12345678901234567890.5"}, []string{`"x"`, "true", "1e400", "1e-400", "{}"})
	any := column("x", "", nil, func(w foldtest.Value, h cell) bool {
		return w.Kind == foldtest.Number && sameNumber(w, h) || w.Kind != foldtest.Number && sameText(w, h)
	}, []string{"1", "1.5", `"x"`, `"007"`, `{"a":1}`, "9007199254740993"}, nil)
	blob := any
	blob.Name, blob.decl = "bl", "BLOB"
	v := column("v5", "VARCHAR(5)", nil, sameText, []string{`"abcdefgh"`, "1.50", "true", "[1]"}, nil)
	n := column("m", "NUMERIC", func(v foldtest.Value) bool { return v.Text != "007" && len(v.Text) < 19 }, func(w foldtest.Value, h cell) bool {
		return sameNumber(w, h) || sameText(w, h)
	}, []string{"1", "1.5", `"abc"`, "-7", `"12"`}, []string{`"007"`, "12345678901234567890.5"})
	return append(all, i, d, any, blob, v, n)
}

// drawTable draws a user's table.
func drawTable(rnd *rand.Rand, c *randomCase) *userTable {
	u := &userTable{}
	all := userColumns(c.postgres)
	rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	u.columns = all[:1+rnd.IntN(min(len(all), 6))]
	for i := range u.columns {
		w := &u.columns[i]
		switch k := rnd.IntN(6); {
		case k == 0:
			w.Default = foldtest.MustParse(w.good[0])
			w.decl += " DEFAULT " + literal(w.Default)
			if w.wrong == "" && rnd.IntN(2) == 0 {
				w.decl += " NOT NULL"
				w.named = true
			}
		case k == 1 && c.rules.Version == "" && w.wrong == "":
			w.decl += " NOT NULL"
			w.named = true
		case k == 2 && w.Name == "t":
			w.wrong, w.check = `"wrong"`, refuses("t", "wrong")
			w.decl += " CHECK (t <> 'wrong')"
		case k == 3 && w.Name == "t":
			w.wrong, w.check = `"wrong"`, refuses("t", "wrong")
			u.after = append(u.after, trigger(c.postgres)...)
		case k == 2 && w.Name == "i":
			w.wrong, w.check = "77", refuses("i", "77")
			w.decl += " CHECK (i <> 77)"
		case k == 3 && w.Name == "i":
			u.before = append(u.before, "CREATE TABLE parent (id integer PRIMARY KEY)", "INSERT INTO parent VALUES (7), (8), (9), (100)")
			w.good, w.bad = []string{"7", `"8"`, "9.0", "1e2"}, w.bad[:3]
			w.wrong, w.check = "77", refuses("i", "77")
			w.decl += " REFERENCES parent (id)"
		}
	}
	if i := slices.IndexFunc(u.columns, func(w userColumn) bool { return w.Name == "i" }); i >= 0 && rnd.IntN(3) == 0 {
		u.columns = append(u.columns, userColumn{Column: foldtest.Column{Name: "g", Generated: true}, decl: "bigint GENERATED ALWAYS AS (i / 2) STORED", good: []string{"1", `"x"`, "null"}})
	}
	if slices.ContainsFunc(u.columns, func(w userColumn) bool { return w.decl[:min(4, len(w.decl))] == "mood" }) {
		u.before = append(u.before, "CREATE TYPE mood AS ENUM ('sad', 'glad')")
	}
	if v := c.rules.Version; v != "" && (c.rules.RowScope || rnd.IntN(2) == 0) {
		w := userColumn{Column: foldtest.Column{Name: v}, decl: pick(rnd, []string{"bigint", "TEXT"})}
		if w.same = sameText; w.decl == "bigint" {
			w.same, w.Takes = sameNumber, func(v foldtest.Value) bool { return whole(v, 64) }
		}
		u.columns = append(u.columns, w)
	}
	if u.linked = len(c.rules.Key) == 1 && c.keys[0] == "number" && rnd.IntN(3) == 0; u.linked {
		for name, decl := range map[string]string{"uq": "bigint UNIQUE", "boss": "bigint REFERENCES t (id)"} {
			w := userColumn{Column: foldtest.Column{Name: name, Takes: func(v foldtest.Value) bool { return whole(v, 64) }}, decl: decl, same: sameNumber}
			u.columns = append(u.columns, w)
		}
	}
	switch u.byIndex = rnd.IntN(4) == 0 && !u.linked; {
	case u.byIndex:
	case !c.postgres && rnd.IntN(4) == 0:
		u.ending = " WITHOUT ROWID"
	case c.postgres && !u.linked && rnd.IntN(6) == 0:
		u.ending = " PARTITION BY HASH (id)"
		u.after = append(u.after, "CREATE TABLE t0 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 0)", "CREATE TABLE t1 PARTITION OF t FOR VALUES WITH (MODULUS 2, REMAINDER 1)")
	}
	if rnd.IntN(4) == 0 {
		u.after = append(u.after, "CREATE VIEW seen AS SELECT * FROM t")
	}
	return u
}

func literal(v foldtest.Value) string {
	if v.Kind == foldtest.Number || v.Kind == foldtest.Bool {
		return v.Text
	}
	return "'" + strings.ReplaceAll(v.Text, "'", "''") + "'"
}

func refuses(column, text string) func(map[string]foldtest.Value) error {
	return func(row map[string]foldtest.Value) error {
		if row[column].Kind != foldtest.Null && row[column].Text == text {
			return fmt.Errorf("%s is %s", column, text)
		}
		return nil
	}
}

// trigger rejects a row with an error of its own.
func trigger(postgres bool) []string {
	if postgres {
		return []string{"CREATE FUNCTION judge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF new.t = 'wrong' THEN RAISE EXCEPTION 'no' USING ERRCODE = 'U0001'; END IF; RETURN new; END $$",
			"CREATE TRIGGER judging BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION judge()"}
	}
	return []string{"CREATE TRIGGER judging BEFORE INSERT ON t WHEN new.t = 'wrong' BEGIN SELECT RAISE(ABORT, 'no'); END",
		"CREATE TRIGGER judging2 BEFORE UPDATE ON t WHEN new.t = 'wrong' BEGIN SELECT RAISE(ABORT, 'no'); END"}
}

// make returns the statements that create the table.
func (u *userTable) make(c *randomCase) []string {
	var defs []string
	for i, k := range c.rules.Key {
		defs = append(defs, quote(k)+" "+userKeys[c.keys[i]].decl+" NOT NULL")
	}
	for _, w := range u.columns {
		defs = append(defs, quote(w.Name)+" "+w.decl)
	}
	var key []string
	for _, k := range c.rules.Key {
		key = append(key, quote(k))
	}
	made := []string{"CREATE UNIQUE INDEX t_key ON t (" + strings.Join(key, ", ") + ")"}
	if !u.byIndex {
		made = nil
		defs = append(defs, "PRIMARY KEY ("+strings.Join(key, ", ")+")")
	}
	return slices.Concat(u.before, []string{"CREATE TABLE t (" + strings.Join(defs, ", ") + ")" + u.ending}, made, u.after)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// values draws the values of a message.
func (u *userTable) values(rnd *rand.Rand) (parts []string) {
	for i := range u.columns {
		w := &u.columns[i]
		if w.Name == "uq" && rnd.IntN(3) == 0 {
			parts = append(parts, fmt.Sprintf(`"uq":%d`, rnd.Int64()))
		}
		if len(w.good) == 0 || !w.named && rnd.IntN(2) == 0 {
			continue
		}
		text := pick(rnd, w.good)
		switch {
		case !w.named && rnd.IntN(8) == 0:
			text = "null"
		case len(w.bad) > 0 && rnd.IntN(40) == 0:
			text = pick(rnd, w.bad)
		case w.more != nil && rnd.IntN(2) == 0:
			text = w.more(rnd)
		}
		spelled := name(rnd, w.Name)
		if !w.named {
			spelled = anyCase(rnd, w.Name)
		}
		parts = append(parts, spelled+":"+text)
	}
	if rnd.IntN(4) == 0 {
		column := rnd.IntN(3)
		parts = append(parts, name(rnd, []string{"unknown", "fünf", "0"}[column])+":"+value(rnd, []int{mixed, numbers, smallInts}[column]))
	}
	return parts
}

// links returns lines whose rows depend on each other; each has a unique key. Lines that set a unique value again, or
// refer to a missing row, are rejected.
func (u *userTable) links(rnd *rand.Rand, c *randomCase, id int) (lines []string) {
	var rest strings.Builder
	for i := range u.columns {
		if w := &u.columns[i]; w.named {
			fmt.Fprintf(&rest, ",%s:%s", name(rnd, w.Name), pick(rnd, w.good))
		}
	}
	ids := rnd.Perm(6)
	for n, text := range []string{`"uq":%d`, `"uq":%d,"boss":%d`, `"boss":%d`, `"uq":%d`, `"boss":%d`, `"uq":%d,"boss":null`} {
		of := []int{id, id + 1, id + ids[0], id, id + 77, id + 2}[n]
		line := fmt.Sprintf(`{"id":%d,`, id+ids[n])
		if c.rules.Version != "" {
			line += fmt.Sprintf(`%q:%d,`, c.rules.Version, id+n)
		}
		if n == 1 {
			line += fmt.Sprintf(text, of, id+ids[0])
		} else {
			line += fmt.Sprintf(text, of)
		}
		lines = append(lines, line+rest.String()+"}")
	}
	return lines
}

// wrongs returns lines that a constraint rejects; each has a unique key.
func (u *userTable) wrongs(rnd *rand.Rand, c *randomCase, id int) string {
	parts := []string{}
	for n, k := range c.rules.Key {
		parts = append(parts, name(rnd, k)+":"+pick(rnd, userKeys[c.keys[n]].spell(id)))
	}
	if c.rules.Version != "" {
		parts = append(parts, fmt.Sprintf("%s:%d", name(rnd, c.rules.Version), id))
	}
	var able []*userColumn
	for i := range u.columns {
		if w := &u.columns[i]; w.wrong != "" || w.named {
			able = append(able, w)
		}
	}
	if len(able) == 0 {
		return ""
	}
	guilty := pick(rnd, able)
	for i := range u.columns {
		w := &u.columns[i]
		switch {
		case w == guilty && w.wrong != "":
			parts = append(parts, name(rnd, w.Name)+":"+w.wrong)
		case w == guilty: // violates NOT NULL
			if rnd.IntN(2) == 0 {
				parts = append(parts, name(rnd, w.Name)+":null")
			}
		case w.named:
			parts = append(parts, name(rnd, w.Name)+":"+pick(rnd, w.good))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// violates checks a row against the constraints.
func (u *userTable) violates(t *foldtest.Table, key string, row map[string]foldtest.Value) error {
	if boss, _ := foldtest.Decimal(row["boss"].Text); u.linked && row["boss"].Kind != foldtest.Null && !t.Has(boss) && foldtest.Key(boss) != key {
		return errors.New("no such boss")
	}
	if uq := row["uq"]; u.linked && uq.Kind != foldtest.Null {
		for other, r := range t.Rows() {
			if other != key && r["uq"].Text == uq.Text {
				return errors.New("taken")
			}
		}
	}
	for i := range u.columns {
		w := &u.columns[i]
		if w.check != nil {
			if err := w.check(row); err != nil {
				return err
			}
		}
		if w.named && row[w.Name].Kind == foldtest.Null {
			return fmt.Errorf("%s is NULL", w.Name)
		}
	}
	return nil
}

// columnsOf returns the columns for the model.
func (u *userTable) columnsOf(c *randomCase) (columns []foldtest.Column) {
	for i, k := range c.rules.Key {
		kind := userKeys[c.keys[i]]
		key := foldtest.Column{Name: k, Takes: kind.takes, Same: kind.same}
		columns = append(columns, key)
	}
	for _, w := range u.columns {
		columns = append(columns, w.Column)
	}
	return columns
}

// A userKey is a kind of key column in a user's table: which values are equal, and how a feed spells them.
type userKey struct {
	decl  string
	takes func(foldtest.Value) bool
	same  func(foldtest.Value) string
	spell func(id int) []string
	bad   []string
}

func text(v foldtest.Value) string { return v.Text }

func decimal(v foldtest.Value) string {
	n, _ := foldtest.Decimal(v.Text)
	return n
}

func nearest(v foldtest.Value) string {
	f, _ := strconv.ParseFloat(v.Text, 64)
	return fmt.Sprint(f + 0) // removes the sign of zero
}

func wholeOf(bits int) func(foldtest.Value) bool {
	return func(v foldtest.Value) bool { return whole(v, bits) }
}

// userKeys are the kinds of key columns in users' tables.
var userKeys = map[string]userKey{
	"number": {"bigint", wholeOf(64), decimal, func(id int) []string {
		return []string{fmt.Sprint(id), fmt.Sprintf(`"%d"`, id), fmt.Sprintf("%d.0", id), fmt.Sprintf("%de0", id)}
	}, []string{"1.5", `"x"`, `"01"`, "true"}},
	"text": {"TEXT", nil, text, func(id int) []string {
		return []string{fmt.Sprintf(`"k %d ü"`, id), fmt.Sprintf(`"\u006b %d ü"`, id), fmt.Sprintf(`"k\u0020%d \u00fC"`, id)}
	}, nil},
	"small": {"smallint", wholeOf(16), decimal, func(id int) []string { // invalid keys exceed it
		return []string{fmt.Sprint(id), fmt.Sprintf(`"%d"`, id), fmt.Sprintf("%d.0", id)}
	}, []string{"40000", "[]"}},
	"numeric": {"numeric", number, decimal, func(id int) []string {
		return []string{fmt.Sprintf("%d.5", id), fmt.Sprintf(`"%d.50"`, id), fmt.Sprintf("%d5e-1", id), fmt.Sprintf("%d.500", id)}
	}, []string{`"x"`, "true"}},
	"double": {"double precision", double, nearest, func(id int) []string {
		return []string{fmt.Sprintf("%d.5", id), fmt.Sprintf(`"%d.50"`, id), fmt.Sprintf("%d5e-1", id)}
	}, []string{`"x"`, "1e400"}},
	"uuid": {"uuid", func(v foldtest.Value) bool { return uuid.MatchString(strings.ToLower(v.Text)) }, func(v foldtest.Value) string { return strings.ToLower(v.Text) },
		func(id int) []string {
			return []string{fmt.Sprintf(`"a0eebc99-9c0b-4ef8-bb6d-%012x"`, id), fmt.Sprintf(`"A0EEBC99-9C0B-4EF8-BB6D-%012X"`, id)}
		}, []string{`"x"`, "7"}},
	"nocase": {"TEXT COLLATE NOCASE", nil, func(v foldtest.Value) string { return strings.ToLower(v.Text) }, func(id int) []string {
		return []string{fmt.Sprintf(`"key %d"`, id), fmt.Sprintf(`"KEY %d"`, id), fmt.Sprintf(`"Key\u0020%d"`, id)}
	}, nil},
	"rtrim": {"TEXT COLLATE RTRIM", nil, func(v foldtest.Value) string { return strings.TrimRight(v.Text, " ") }, func(id int) []string {
		return []string{fmt.Sprintf(`"key %d"`, id), fmt.Sprintf(`"key %d  "`, id)}
	}, nil},
	"char": {"char(12)", func(v foldtest.Value) bool { return len([]rune(strings.TrimRight(v.Text, " "))) <= 12 }, func(v foldtest.Value) string { return strings.TrimRight(v.Text, " ") }, func(id int) []string {
		return []string{fmt.Sprintf(`"k%d"`, id), fmt.Sprintf(`"k%d             "`, id)}
	}, []string{`"0123456789012"`}},
	"untyped": {"", nil, text, func(id int) []string {
		return []string{fmt.Sprintf(`"k%d"`, id), fmt.Sprintf(`"\u006b%d"`, id)}
	}, nil},
}

// drawUserKey draws the kind of a key column.
func drawUserKey(rnd *rand.Rand, postgres bool) string {
	if rnd.IntN(2) == 0 {
		return pick(rnd, []string{"number", "text"})
	}
	if postgres {
		return pick(rnd, []string{"small", "numeric", "double", "uuid", "char"})
	}
	return pick(rnd, []string{"double", "nocase", "rtrim", "untyped"})
}
