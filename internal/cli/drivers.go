package cli

import (
	"github.com/weirsync/weir/internal/sink"
	"github.com/weirsync/weir/internal/sink/postgres"
	"github.com/weirsync/weir/internal/sink/sqlite"
)

// drivers are the kinds of databases that weir writes to. The last one that takes --to for
// a database of its kind has it: the first one takes every path.
var drivers = []sink.Driver{sqlite.Driver, postgres.Driver}
