package sink_test

import (
	"reflect"
	"testing"

	"github.com/weirsync/weir/internal/sink"
)

func TestJudge(t *testing.T) {
	lane := func(source string, seq int64) sink.Lane {
		return sink.Lane{Source: source, Checkpoint: sink.Checkpoint{Seq: seq}}
	}
	type found = map[string]sink.Fence
	for name, c := range map[string]struct {
		lanes []sink.Lane
		found found
		done  bool
		err   error
	}{
		"first":                  {[]sink.Lane{lane("a", 1), lane("b", 1)}, nil, false, nil},
		"next":                   {[]sink.Lane{lane("a", 3), lane("b", 1)}, found{"a": {2, "another"}}, false, nil},
		"done":                   {[]sink.Lane{lane("a", 3), lane("b", 1)}, found{"a": {3, "run"}, "b": {1, "run"}}, true, nil},
		"written by another run": {[]sink.Lane{lane("a", 3), lane("b", 1)}, found{"a": {2, "run"}, "b": {1, "another"}}, false, sink.FencedError{Lanes: []string{"b"}}},
		"far behind others":      {[]sink.Lane{lane("a", 3), lane("b", 2)}, found{"a": {9, "another"}, "b": {2, "another"}}, false, sink.FencedError{Lanes: []string{"a", "b"}}},
		"restored":               {[]sink.Lane{lane("a", 3), lane("b", 2), lane("c", 4)}, found{"a": {2, "run"}, "c": {1, "run"}}, false, sink.BehindError{Lane: "b", Found: 0, Want: 1}},
		"restored and written":   {[]sink.Lane{lane("a", 3), lane("b", 2)}, found{"b": {7, "another"}}, false, sink.FencedError{Lanes: []string{"b"}}},
		"unnamed":                {[]sink.Lane{{Source: "a", Unnamed: true, Checkpoint: sink.Checkpoint{Seq: 2}}}, found{"a": {9, "another"}, "run run": {1, "run"}}, false, nil},
	} {
		f := sink.Flush{Run: "run", Lanes: c.lanes}
		if done, err := f.CheckFence(c.found); done != c.done || !reflect.DeepEqual(err, c.err) {
			t.Errorf("%s: %v, %v; want %v, %v", name, done, err, c.done, c.err)
		}
	}
}
