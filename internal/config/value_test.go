package config

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	f := func(text string, want time.Duration, shown string) {
		t.Helper()
		var d Duration
		var o OptDuration
		if err := d.Set(text); err != nil || time.Duration(d) != want || d.String() != shown {
			t.Errorf("%s: %v, shown as %s (%v)", text, time.Duration(d), d, err)
		}
		if err := o.Set(text); err != nil || o.Duration != want || !o.IsSet || o.String() != shown {
			t.Errorf("%s: %+v, shown as %s (%v)", text, o, &o, err)
		}
	}
	f("7d", 7*24*time.Hour, "7d")
	f("48h", 48*time.Hour, "2d")
	f("90s", 90*time.Second, "1m30s")
	f("0s", 0, "0s")
	f("-1h", -time.Hour, "-1h0m0s")
	for _, text := range []string{"", "d", "1.5d", "-1d", "5", "99999d", "soon"} {
		if d := new(Duration); d.Set(text) == nil {
			t.Errorf("%q is %s", text, d)
		}
	}
}

func TestOptDuration_NotSetAndForever(t *testing.T) {
	var o OptDuration
	if o.IsSet || o.String() != "" {
		t.Errorf("%+v is shown as %s", o, &o)
	}
	if err := o.Set("forever"); err != nil || o.Duration != Forever || o.String() != "forever" {
		t.Errorf("forever is %+v (%v)", o, err)
	}
	if d := new(Duration); d.Set("forever") == nil {
		t.Errorf("a plain duration takes forever: %s", d)
	}
}

func TestSize(t *testing.T) {
	f := func(text string, want Size, shown string) {
		t.Helper()
		var s Size
		if err := s.Set(text); err != nil || s != want || s.String() != shown {
			t.Errorf("%s: %d, shown as %s (%v)", text, s, s, err)
		}
	}
	f("64MiB", 64<<20, "64MiB")
	f("1.5K", 1536, "1536B")
	f("1GB", 1e9, "1000000000B")
	f("4096", 4096, "4KiB")
	f(" 2 GiB ", 2<<30, "2GiB")
	for _, text := range []string{"", "many", "-1", "12parsecs", "NaN", "9e99GiB"} {
		if s := new(Size); s.Set(text) == nil {
			t.Errorf("%q is %s", text, s)
		}
	}
}
