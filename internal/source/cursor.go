package source

// A Cursor says where the next unread line of a source starts, and by what the source is known to
// be still the same one: JSON of the source's own. "" is the start, and all that there is of a
// source that cannot go back. It fits into other JSON as it is.
type Cursor string

// MarshalJSON implements json.Marshaler.
func (c Cursor) MarshalJSON() ([]byte, error) { return []byte(c), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cursor) UnmarshalJSON(text []byte) error {
	*c = Cursor(text)
	return nil
}

// ChangedError tells of a source that no longer matches the position that it
// should be resumed from.
type ChangedError struct {
	Name string
	What string // says what differs
}

func (e *ChangedError) Error() string {
	return e.Name + " " + e.What + "; to read it from the start: --restart reread"
}
