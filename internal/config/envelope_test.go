package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirsync/weir/internal/mapping"
	"github.com/weirsync/weir/internal/testcheck"
)

// TestPresets: each is right, and what is printed of it is the same envelope.
func TestPresets(t *testing.T) {
	for _, name := range PresetNames() {
		want, err := Preset(name)
		testcheck.NoError(t, err)
		file, err := readText(t, "envelope: "+name+"\nversion: true\ntables: {a: }\n")
		testcheck.NoError(t, err)
		m := file.Mapping
		if !reflect.DeepEqual(m.Envelope, want) || m.Tables[0].Version.Base != mapping.MessageBase {
			t.Errorf("%s: %+v", name, m)
		}
		printed, err := Print(m)
		testcheck.NoError(t, err)
		again, err := readText(t, string(printed))
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, printed)
		}
		twice, err := Print(again.Mapping)
		if err != nil || string(twice) != string(printed) || !strings.Contains(string(printed), "\nenvelope:\n"[1:]) {
			t.Errorf("%s: %v\n%s\n%s", name, err, printed, twice)
		}
		if a, b := m.Fingerprint(), again.Mapping.Fingerprint(); !reflect.DeepEqual(a, b) || a["envelope"] == "" {
			t.Errorf("%s: %v and %v", name, a, b)
		}
		if a, b := m.Tables[0].Fingerprint(), again.Mapping.Tables[0].Fingerprint(); !reflect.DeepEqual(a, b) {
			t.Errorf("%s: %v and %v", name, a, b)
		}
	}
	if _, err := Preset("debezum"); err == nil || !strings.Contains(err.Error(), `did you mean "debezium"?`) {
		t.Error(err)
	}
	if !slices.Contains(PresetNames(), "debezium") {
		t.Error(PresetNames())
	}
}
