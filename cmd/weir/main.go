// Command weir keeps a database table true to a feed.
package main

import (
	"os"

	"github.com/weirsync/weir/internal/cli"
)

func main() { os.Exit(cli.Main()) }
