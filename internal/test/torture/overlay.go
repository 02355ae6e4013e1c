// Package torture has the tests that kill weir, its databases and its disks, and check that nothing is lost,
// duplicated or inconsistent. The environment variable TORTURE multiplies their duration.
package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Overlay writes files into dir so the go command uses texts instead of the files with these names, and returns the
// value of its flag -overlay.
func Overlay(dir string, texts map[string]string) (config string, err error) {
	replace := map[string]string{}
	for file, text := range texts {
		path, err := filepath.Abs(file)
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err = errors.Join(err, os.WriteFile(replace[path], []byte(text), 0o600)); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	config = filepath.Join(dir, "overlay.json")
	return config, errors.Join(err, os.WriteFile(config, text, 0o600))
}
