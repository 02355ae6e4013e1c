package file_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/source"
	"github.com/weirsync/weir/internal/source/file"
	"github.com/weirsync/weir/internal/source/sourcetest"
)

// TestSuite: files and stdin pass the suite, in all forms.
func TestSuite(t *testing.T) {
	for name, form := range forms {
		bytesOf := func(t *testing.T, lines []string) []byte { return form(t, []byte(strings.Join(lines, "\n")+"\n")) }
		t.Run("file/"+name, func(t *testing.T) {
			sourcetest.Test(t, func(t *testing.T, lines ...string) sourcetest.Feed {
				return sourcetest.Feed{Spec: tempFile(t, bytesOf(t, lines)), Kind: func() source.Kind { return file.Kind(file.Options{}) }}
			})
		})
		t.Run("stdin/"+name, func(t *testing.T) {
			sourcetest.Test(t, func(t *testing.T, lines ...string) sourcetest.Feed {
				text := bytesOf(t, lines)
				return sourcetest.Feed{Spec: "-", Kind: func() source.Kind { return file.Kind(file.Options{Stdin: bytes.NewReader(text)}) }}
			})
		})
	}
}
