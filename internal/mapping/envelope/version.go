package envelope

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/mapping/cast"
	"github.com/weirsync/weir/internal/mapping/paths"
)

// A VersionPart is one of the numbers of a version.
type VersionPart struct {
	From paths.Path
	As   VersionCast
}

// VersionCast is how a part of a version is parsed.
type VersionCast string

// The casts for parts whose text does not sort like the version.
const (
	NoCast      VersionCast = ""
	LSNCast     VersionCast = "lsn"       // 16/B374D848, of Postgres
	BinlogCast  VersionCast = "binlog"    // mysql-bin.000003, or with a position: mysql-bin.000003:154
	MongoCast   VersionCast = "mongo_ts"  // {"$timestamp": {"t": 1589549400, "i": 1}}
	RFC3339Cast VersionCast = "timestamp" // 2020-05-15T13:30:00.5Z
)

// versionCasts are the names of all casts, as errors list them.
var versionCasts = []VersionCast{LSNCast, BinlogCast, MongoCast, RFC3339Cast}

// UnmarshalText parses PATH or PATH as CAST.
func (v *VersionPart) UnmarshalText(text []byte) (err error) {
	path, as, typed := cast.CutAs(strings.TrimSpace(string(text)))
	if v.From, err = paths.ParsePath(path); err != nil {
		return err
	}
	if v.As = VersionCast(as); typed && !slices.Contains(versionCasts, v.As) {
		return fmt.Errorf("%q: a version is read as %s, or as it is", as, strings.ReplaceAll(strings.Trim(fmt.Sprint(versionCasts), "[]"), " ", ", "))
	}
	return nil
}

// String returns the text that UnmarshalText parses.
func (v VersionPart) String() string {
	if v.As == NoCast {
		return v.From.String()
	}
	return fmt.Sprintf("%s as %s", v.From, v.As)
}

// MarshalText implements [encoding.TextMarshaler].
func (v VersionPart) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// append appends the numbers of a part of a version.
func (c VersionCast) append(numbers []uint64, raw, text []byte) (_ []uint64, ok bool) {
	switch c {
	case LSNCast:
		high, low, two := strings.Cut(string(text), "/")
		h, err := strconv.ParseUint(high, 16, 32)
		l, err2 := strconv.ParseUint(low, 16, 32)
		return append(numbers, h<<32|l), two && err == nil && err2 == nil
	case BinlogCast:
		file, at, positioned := strings.Cut(string(text), ":")
		n, err := strconv.ParseUint(file[strings.LastIndex(file, ".")+1:], 10, 64)
		if numbers = append(numbers, n); !positioned {
			return numbers, err == nil
		}
		p, err2 := strconv.ParseUint(at, 10, 64)
		return append(numbers, p), err == nil && err2 == nil
	case MongoCast:
		ts := feed.Member(raw, "$timestamp").Value
		t, err := strconv.ParseUint(string(feed.Member(ts, "t").Value), 10, 32)
		i, err2 := strconv.ParseUint(string(feed.Member(ts, "i").Value), 10, 32)
		return append(numbers, t<<32|i), err == nil && err2 == nil
	case RFC3339Cast:
		n, ok := cast.Nanoseconds(text)
		return append(numbers, n), ok
	}
	n, err := strconv.ParseUint(string(text), 10, 64)
	return append(numbers, n), err == nil
}

// version returns the version in a message; the zero value if it has none.
func (d *Decoder) version() (f feed.Field, err *feed.Error) {
	if !d.versioned {
		return f, nil
	}
	d.numbers = d.numbers[:0]
	for i := range d.spec.Version {
		part := &d.spec.Version[i]
		v := d.read.Value(&part.From)
		switch {
		case v != nil && v.Kind != feed.Null:
			var ok bool
			if d.numbers, ok = part.As.append(d.numbers, v.Value, d.read.Text(v)); !ok {
				return f, feed.Errorf(feed.BadVersion, "%s is not valid in a version: %s", part, feed.Clip(v.Value))
			}
		case i == 0:
			return f, nil // the fold reports that it is missing
		default:
			d.numbers = append(d.numbers, 0)
		}
	}
	from := len(d.bytes)
	f.Kind = feed.Int
	if len(d.numbers) == 1 {
		d.bytes = strconv.AppendUint(d.bytes, d.numbers[0], 10)
	} else { // all numbers have the same number of digits, so texts sort like numbers
		f.Kind = feed.String
		for i, n := range d.numbers {
			d.bytes = append(d.bytes, `"/`[min(i, 1)])
			d.bytes = fmt.Appendf(d.bytes, "%020d", n)
		}
		d.bytes = append(d.bytes, '"')
	}
	f.Value = d.bytes[from:len(d.bytes):len(d.bytes)]
	return f, nil
}
