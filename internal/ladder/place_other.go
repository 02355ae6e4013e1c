//go:build !unix

package ladder

import "io/fs"

// ours reports whether a folder is this user's: each has one for temporary files.
func ours(fs.FileInfo) bool { return true }
