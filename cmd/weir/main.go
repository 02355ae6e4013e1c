// Command weir applies a stream of partial JSON updates to SQLite or Postgres tables.
package main

import (
	"os"

	"github.com/weirsync/weir/internal/cli"
)

func main() { os.Exit(cli.Main()) }
