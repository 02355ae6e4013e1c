package mapping

import "github.com/weirsync/weir/internal/feed"

// Read returns the text of a value as a column of the type has it in SQLite; ok is false for
// one that the type cannot have.
func (t Type) Read(value []byte) (text string, ok bool) {
	v := feed.Field{Value: value, Kind: feed.KindOf(value)}
	c := newCast(t, true)
	out, why := (&Scratch{}).read(&v, &c)
	return string(feed.AppendText(nil, out.Value, out.Kind)), why == ""
}
