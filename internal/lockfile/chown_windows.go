package lockfile

import (
	"io/fs"
	"os"
)

// chownLike does nothing: a new file has the folder's rights.
func chownLike(*os.File, fs.FileInfo) {}
