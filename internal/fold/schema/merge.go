package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/feed"
	"github.com/weirsync/weir/internal/fold/merge"
)

// This file is about columns with a merge function other than [merge.Last].
//
// A column that weir created for a sum takes any number from the start. If its type were widened on overflow instead,
// the type would depend on where a batch ends.

// MergeError returns the error that a column cannot have a merge function; nil if why is empty.
func MergeError(column string, f merge.Function, why string) error {
	if why == "" {
		return nil
	}
	return fmt.Errorf("column %q cannot merge by %s: %s", column, f, why)
}

// CheckMerge returns an error if the column cannot have its merge function.
func (c *Column) CheckMerge() error { return MergeError(c.Name, c.Merge, c.whyNotMerged()) }

func (c *Column) whyNotMerged() string {
	switch {
	case !c.Merge.Computes():
		return ""
	case c.Key:
		return "it is part of the key"
	case c.Generated:
		return "the database computes it"
	case c.Stamp != NoStamp:
		return "it holds the time of a flush"
	}
	accepted := []Type{Any, Int, Real, Number, Text, Affine}
	switch c.Merge {
	case merge.Min, merge.Max:
		accepted = append(accepted, Bool, UUID, Enum, Day, Instant, Bytes)
	case merge.Patch:
		accepted = []Type{Any, Text, JSON, Affine} // JSON with NUMERIC affinity stays text
	}
	if !c.Own && !slices.Contains(accepted, c.Type) && !(c.local() && c.Merge != merge.Sum && c.Merge != merge.Patch) {
		return fmt.Sprintf("it is %s: %s", c.Declared(), functionTypes[c.Merge])
	}
	if c.Default != "" && !c.neutral() {
		return fmt.Sprintf("it has the default %s, so a row would depend on whether its first message names the column: drop the default", c.Default)
	}
	return ""
}

// functionTypes says which columns each function is for.
var functionTypes = map[merge.Function]string{
	merge.Sum:   "sum is for numbers, and for text that holds numbers",
	merge.Min:   "min is for values that have an order",
	merge.Max:   "max is for values that have an order",
	merge.Patch: "patch is for JSON, and for text that holds JSON",
}

// local reports whether the column is a time without a zone: the database ignores the zone of a value.
func (c *Column) local() bool { return c.Type == External && c.HoldsTime }

// neutral reports whether merging a value into the column's default gives that value.
func (c *Column) neutral() bool {
	text, _, _ := strings.Cut(c.Default, "::")
	text = strings.Trim(text, "()' ")
	switch c.Merge {
	case merge.Sum:
		_, isNumber := feed.IsNumber([]byte(text))
		return isNumber && feed.IsZero([]byte(text))
	case merge.Patch:
		return strings.ReplaceAll(text, " ", "") == "{}"
	}
	return strings.EqualFold(text, "null")
}

// MayOverflow reports whether the database may reject a merged value although it accepts each of the values merged.
func (c *Column) MayOverflow() bool {
	if c.Merge != merge.Sum {
		return c.Merge == merge.Patch && c.Type == Text && c.Size > 0
	}
	switch c.Type {
	case Number:
		return strings.Contains(c.Decl, "(")
	case Any, Bool, Int, Real:
		return !c.Own
	}
	return true // the text may not be a number
}

// AdmitMerge returns an error if the column's merge function does not accept a value. It does not look at the row in
// the database, so the answer does not depend on where a batch ends.
func (c *Column) AdmitMerge(value []byte, k feed.Kind) *feed.Error {
	if k == feed.Null || !c.Merge.Computes() || c.mergeable(value, k) {
		return nil
	}
	wants := "numbers"
	switch {
	case c.Merge == merge.Sum && c.Precision > 0:
		wants = "numbers that " + c.Declared() + " does not round"
	case c.Merge == merge.Patch:
		wants = "objects and arrays"
	case c.Merge != merge.Sum:
		wants = "values that have an order"
	}
	return feed.Errorf(feed.BadValue, "column %q merges by %s, which takes %s: not the %s %q", c.Name, c.Merge, wants, k, feed.Clip(feed.Text(nil, value, k)))
}

func (c *Column) mergeable(value []byte, k feed.Kind) bool {
	switch c.Merge {
	case merge.Sum:
		if k == feed.String && !c.readsNumbers() || k == feed.Bool || k == feed.JSON {
			return false
		}
		number := feed.Text(nil, value, k)
		if !merge.IsSummand(number) || c.Precision == 0 {
			return merge.IsSummand(number)
		}
		// If values were rounded, the sum would depend on where batches end.
		d, _ := feed.ReadDecimal(nil, number)
		return d.Fraction() <= max(0, c.Scale)
	case merge.Patch:
		return k == feed.JSON && value[0] != feed.JSONNull[0]
	}
	switch {
	case k == feed.JSON:
		return false
	case k == feed.Bool && !c.Own && c.Type != Bool && c.Type != Text: // it would be stored as a number, which sorts differently
		return false
	}
	if c.Own || !c.hasForms() { // Postgres cannot compare numbers that are too large for a sum
		number, isNumber := feed.AsNumber(feed.Text(nil, value, k))
		return !isNumber || merge.IsSummand(number)
	}
	_, ok := c.appendOrder(nil, feed.Text(nil, value, k))
	return ok
}

// readsNumbers reports whether the column's type reads a number from a string.
func (c *Column) readsNumbers() bool {
	return !c.Own && (c.Type == Int || c.Type == Real || c.Type == Number)
}

// AppendMerged appends the result of merging a value into have, as raw JSON. have is the text in the column, nil for
// none or NULL. AdmitMerge has accepted both, unless have comes from the database: ok is false if the function cannot
// use it. merged is nil if the column is unchanged.
func (c *Column) AppendMerged(dst, have, value []byte) (merged []byte, ok bool) {
	text := feed.TextOf(value)
	switch c.Merge {
	case merge.First:
		if have != nil {
			return nil, true
		}
	case merge.Sum:
		if have == nil {
			return merge.AppendNumber(dst, text)
		}
		return merge.AppendSum(dst, have, text)
	case merge.Min, merge.Max:
		if have == nil {
			break
		}
		order := c.compare(text, have)
		if c.Merge == merge.Min {
			order = -order
		}
		if order <= 0 {
			return nil, true
		}
	case merge.Patch:
		return merge.AppendPatched(dst, have, value), true
	}
	return append(dst, value...), true
}

// hasForms reports whether the column's values sort differently from their texts.
func (c *Column) hasForms() bool {
	switch c.Type {
	case Bool, UUID, Enum, Day, Instant, Bytes, External:
		return true
	}
	return false
}

// compare compares two texts in the order of the column's type.
func (c *Column) compare(a, b []byte) int {
	if !c.hasForms() {
		return feed.Compare(a, b)
	}
	x, xok := c.appendOrder(nil, a)
	y, yok := c.appendOrder(nil, b)
	switch {
	case !xok || !yok:
		return feed.Compare(a, b)
	case c.Type == Instant || c.Type == External:
		return feed.Compare(x, y) // numbers
	case c.Type == Enum:
		return cmp.Compare(slices.Index(c.Labels, string(a)), slices.Index(c.Labels, string(b)))
	}
	return bytes.Compare(x, y)
}

// appendOrder appends the sort key of a text in the column's type. ok is false if it has none.
func (c *Column) appendOrder(dst, text []byte) (_ []byte, ok bool) {
	switch {
	case c.Type == Day || c.Type == Instant:
		return c.appendTime(dst, text)
	case c.local():
		return appendLocal(dst, text)
	case c.Type == UUID:
		return AppendUUID(dst, text)
	case c.Type == Bool:
		return append(dst, truth(text)), true
	case c.Type == Bytes:
		return append(dst, bytes.ToLower(text)...), true
	}
	return append(dst, text...), true
}

// truth returns '1' for a text that a boolean column reads as true, and '0' for others.
func truth(text []byte) byte {
	switch strings.ToLower(string(text)) {
	case "1", "t", "tr", "tru", "true", "y", "ye", "yes", "on":
		return '1'
	}
	return '0'
}

// appendLocal appends a time in microseconds without its zone, which the database ignores.
func appendLocal(dst, text []byte) (_ []byte, ok bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, string(text)); err == nil {
			t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			return fmt.Appendf(dst, "%d", t.Unix()*1e6+micros(text)), true
		}
	}
	return dst, false
}
