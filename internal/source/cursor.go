package source

// A Cursor is the position of a source's next unread line, with checksums that detect a replaced source. It is JSON in
// the source's own format. "" is the start, and the only cursor of a source that cannot be rewound. A Cursor can be
// embedded in other JSON.
type Cursor string

// MarshalJSON implements json.Marshaler.
func (c Cursor) MarshalJSON() ([]byte, error) { return []byte(c), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (c *Cursor) UnmarshalJSON(text []byte) error {
	*c = Cursor(text)
	return nil
}

// A ChangedError reports that a source no longer matches the position to resume from.
type ChangedError struct {
	Name string
	What string // what differs
}

func (e *ChangedError) Error() string {
	return e.Name + " " + e.What + "; to read it from the start: --restart reread"
}
