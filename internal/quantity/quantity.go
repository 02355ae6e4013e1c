// Package quantity formats numbers for people, the same way everywhere.
package quantity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Grouped formats a number with commas between its thousands.
func Grouped(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Count formats a number of things, in singular or plural.
func Count(n int64, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "ch"), strings.HasSuffix(thing, "sh"):
		thing += "es"
	default:
		thing += "s"
	}
	return Grouped(n) + " " + thing
}

// Figure formats a measured value, which is not negative, with three significant digits: 1,420,000, 48.6, 0.31.
func Figure(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(v)))
	unit := math.Pow10(digits)
	whole, rest, _ := strings.Cut(fmt.Sprintf("%.*f", max(digits, 0), math.Round(v*unit)/unit), ".")
	n, _ := strconv.ParseInt(whole, 10, 64) // always digits
	if rest = strings.TrimRight(rest, "0"); rest == "" {
		return Grouped(n)
	}
	return Grouped(n) + "." + rest
}

// Bytes formats a number of bytes in a suitable unit, as limits are set.
func Bytes(n int64) string {
	switch v := float64(n); {
	case v >= 1<<30:
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	case v >= 1<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case v >= 1<<10:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
	return Count(n, "byte")
}

// Seconds formats a number of seconds as a duration.
func Seconds(s float64) string {
	const longest = 9e9 // a time.Duration holds 9.2e9 seconds
	return Duration(time.Duration(min(s, longest) * float64(time.Second)))
}

// Duration formats a duration in at most its two largest units.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	d = d.Round(time.Second)
	if d >= time.Hour {
		d = d.Round(time.Minute)
	}
	if d >= 24*time.Hour {
		d = d.Round(time.Hour)
	}
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units[:3] {
		if d < u.of {
			continue
		}
		smaller := units[i+1]
		text := fmt.Sprintf("%d%s", d/u.of, u.name)
		if rest := d % u.of / smaller.of; rest > 0 {
			text += fmt.Sprintf("%d%s", rest, smaller.name)
		}
		return text
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
