package mapping

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// MarshalText implements [encoding.TextMarshaler]: a path is the same however it is spelled.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// Fingerprint is a short text that differs where a table's rows are made in another way. What is
// among the options of its fold, when rows expire and what is run when the table is made does not
// count.
func (t *Table) Fingerprint() string {
	of := *t
	of.Key, of.Null, of.FillOnly, of.Rest, of.Scope, of.MaxColumns = nil, "", false, "", "", 0
	of.Expire, of.OnCreate = nil, nil
	text, _ := json.Marshal(of) // plain structs
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
