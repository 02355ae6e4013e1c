package envelope_test

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirsync/weir/internal/mapping/envelope"
	"github.com/weirsync/weir/internal/test/testcheck"
)

// TestOf runs the cases in testdata/lines.txtar.
func TestOf(t *testing.T) {
	testcheck.GoldenLines(t, "testdata/lines.txtar", func(_ *testing.T, _, line string) string { return cmp.Or(envelope.DetectPreset([]byte(line)), "none") })
}

// TestOf_RealLines: messages that the tools have sent are recognized, and messages of plain feeds are not.
func TestOf_RealLines(t *testing.T) {
	for path, want := range map[string]string{
		"debezium/precise.plain.tsv.gz":                    "debezium",
		"debezium/precise.schemas.tsv.gz":                  "debezium",
		"debezium/precise.flat.tsv.gz":                     "debezium-flat",
		"debezium/precise.flat-schemas.tsv.gz":             "debezium-flat",
		"envelopes/singer/tap-postgres-changes.jsonl":      "singer",
		"envelopes/singer/pipelinewise-tap-postgres.jsonl": "singer",
		"flights.jsonl.gz":                                 "",
	} {
		told := map[string]int{}
		for _, line := range lines(t, filepath.Join("..", "..", "..", "testdata", path)) {
			if of := envelope.DetectPreset(line[bytes.LastIndexByte(line, '\t')+1:]); of != "" {
				told[of]++
			}
		}
		if want == "" && len(told) > 0 || want != "" && (told[want] == 0 || len(told) > 1) {
			t.Errorf("%s: %v, want %q", path, told, want)
		}
	}
}

// lines returns the lines of a file.
func lines(t *testing.T, path string) [][]byte {
	t.Helper()
	if filepath.Ext(path) == ".gz" {
		return bytes.Split(bytes.TrimSpace([]byte(testcheck.Unzipped(t, path))), []byte("\n"))
	}
	text, err := os.ReadFile(path)
	testcheck.NoError(t, err)
	return bytes.Split(bytes.TrimSpace(text), []byte("\n"))
}
