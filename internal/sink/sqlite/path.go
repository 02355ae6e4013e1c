package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	lib "modernc.org/sqlite/lib"
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

// openUnwritable opens a file in a folder where this user may not create the files that SQLite needs next to a database
// in WAL mode; err is SQLite's error. Without a log, the database is the file alone. It is then read as an immutable
// file, and Close checks that it was not changed.
func (f *file) openUnwritable(ctx context.Context, before os.FileInfo, err error) error {
	var e *Error
	if !errors.As(err, &e) || e.primary() != lib.SQLITE_READONLY && e.primary() != lib.SQLITE_CANTOPEN {
		return err
	}
	if f.walBytes() > 0 {
		return fmt.Errorf("%s-wal holds what was committed last, and this user cannot read it: SQLite needs %s-shm for that, or the right to make it; "+
			"read as the file's owner, or while a sync runs", f.path, f.path)
	}
	uri := url.URL{Scheme: "file", OmitHost: true, Path: f.path, RawQuery: "immutable=1"}
	if err := f.connect(ctx, uri.String(), before, lib.SQLITE_OPEN_READONLY|lib.SQLITE_OPEN_URI); err != nil {
		return err
	}
	f.immutable = before
	return nil
}

// checkUnchanged returns an error if a file that was read without locks was written to meanwhile.
func (f *file) checkUnchanged() error {
	if f.immutable == nil {
		return nil
	}
	now, err := os.Stat(f.path)
	if err == nil && now.Size() == f.immutable.Size() && now.ModTime().Equal(f.immutable.ModTime()) && f.walBytes() == 0 {
		return nil
	}
	return fmt.Errorf("%s was written to while it was read: read it again", f.path)
}
