package cli

import (
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// drivers are the supported databases. The last driver that accepts --to is used; the first one accepts every path.
var drivers = []sink.Driver{sqlite.Driver, postgres.Driver}

// builtIn is the database that is part of the program, with its version.
const builtIn = "SQLite " + sqlite.Version

// caseDriver is the driver for the tests of a config file. Their databases are temporary files.
var caseDriver = sqlite.Driver
