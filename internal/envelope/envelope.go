// Package envelope has the envelopes that are known by a name: where the messages of change streams
// have a table, a row and what becomes of it.
package envelope

import _ "embed"

// Presets are the envelopes by their names, with the keys of envelope in a config file, as YAML.
//
//go:embed presets.yaml
var Presets []byte
