package cli

import (
	"strings"

	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// drivers are the kinds of databases that weir writes to. The last one that takes --to for
// a database of its kind has it: the first one takes every path.
var drivers = []sink.Driver{sqlite.Driver, postgres.Driver}

// kinds are the names of the drivers in a config file.
func kinds() []string {
	names := make([]string, len(drivers))
	for i, d := range drivers {
		names[i] = strings.ToLower(d.Name)
	}
	return names
}

// caseDriver is that of the tests of a config file, whose databases are files for a moment.
var caseDriver = sqlite.Driver
