//go:build !unix

package ladder

import "io/fs"

// ours is always true: each user has a folder for temporary files.
func ours(fs.FileInfo) bool { return true }
