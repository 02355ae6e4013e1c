// Package realpath resolves symbolic links.
package realpath

import (
	"os"
	"path/filepath"
)

// Of returns a path without symbolic links. The end of the path need not exist.
func Of(path string) string {
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	links := 40 // as many as Linux follows
	return follow(path, &links)
}

func follow(path string, links *int) string {
	for ; *links > 0; *links-- {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		dir := filepath.Dir(path)
		if dir == path {
			break
		}
		dir = follow(dir, links)
		path = filepath.Join(dir, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return path
}
