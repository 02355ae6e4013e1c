package sqlite

import "os"

// links is 1: how many names a file has is not part of what Windows says of it by name.
func links(os.FileInfo) uint64 { return 1 }
