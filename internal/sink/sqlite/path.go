package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
)

// checkFile returns an error if a path cannot be a database. before is nil if there is no file.
func checkFile(path string, before os.FileInfo) error {
	if before == nil {
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return fmt.Errorf("the database's folder: %w", err)
		}
		return nil
	}
	switch n := links(before); {
	case before.IsDir():
		return fmt.Errorf("%s is a directory, not a database file", path)
	case !before.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case n > 1:
		return fmt.Errorf("%s has %d names (hard links): SQLite keeps a log next to each name, and two runs would damage the file; remove the other names, or copy the file", path, n)
	}
	return nil
}
