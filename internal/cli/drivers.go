package cli

import (
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// drivers are the kinds of databases that weir writes to. The last one that takes --to for
// a database of its kind has it: the first one takes every path.
var drivers = []sink.Driver{sqlite.Driver, postgres.Driver}

// caseDriver is that of the tests of a config file, whose databases are files for a moment.
var caseDriver = sqlite.Driver
