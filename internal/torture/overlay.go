package torture

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
)

// Overlay writes, into files in dir, what has the go command take changed for the content
// of the file original, and returns the value of its flag -overlay.
func Overlay(dir, original string, changed []byte) (config string, err error) {
	if original, err = filepath.Abs(original); err != nil {
		return "", err
	}
	instead := filepath.Join(dir, filepath.Base(original))
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: instead}})
	config = filepath.Join(dir, "overlay.json")
	return config, errors.Join(err, os.WriteFile(instead, changed, 0o600), os.WriteFile(config, text, 0o600))
}
