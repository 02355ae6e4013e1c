//go:build !unix

package experiment

import "io/fs"

// ours reports whether a folder is this user's: each has one for temporary files.
func ours(fs.FileInfo) bool { return true }
