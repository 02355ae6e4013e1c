package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Size is a number of bytes, written as 256MiB, 1.5GB or 4096.
type Size int64

var units = []struct {
	name  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}}

// Set reads a size.
func (s *Size) Set(text string) error {
	number, unit := strings.TrimSpace(text), 1.0
	for _, u := range units {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f < 0 || f*unit > math.MaxInt64/2 || f != f {
		return fmt.Errorf("%q is not a size, such as 64MiB, 1GB or a number of bytes", text)
	}
	*s = Size(f * unit)
	return nil
}

func (s Size) String() string {
	for _, u := range []int{2, 1, 0} {
		if b := Size(units[u].bytes); s >= b && s%b == 0 {
			return strconv.FormatInt(int64(s/b), 10) + units[u].name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// Type names the kind of value in the help.
func (s *Size) Type() string { return "size" }

// OptCount is a whole number of things; where it is not set, there is no limit.
type OptCount struct {
	N     int
	IsSet bool
}

// Set reads a whole number.
func (c *OptCount) Set(text string) (err error) {
	c.IsSet = true
	if c.N, err = strconv.Atoi(text); err == nil && strconv.Itoa(c.N) != text {
		err = strconv.ErrSyntax // 010 is 8 to some
	}
	return err
}

func (c *OptCount) String() string {
	if !c.IsSet {
		return "no limit"
	}
	return strconv.Itoa(c.N)
}

// Type names the kind of value in the help.
func (c *OptCount) Type() string { return "int" }

// Duration is a duration that may be in days, such as 7d.
type Duration time.Duration

const day = 24 * time.Hour

// Set reads a duration.
func (d *Duration) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			*d = Duration(n) * Duration(day)
			return nil
		}
	}
	parsed, err := time.ParseDuration(text)
	*d = Duration(parsed)
	return err
}

func (d Duration) String() string {
	if t := time.Duration(d); t <= 0 || t%day != 0 {
		return t.String()
	}
	return strconv.FormatInt(int64(d)/int64(day), 10) + "d"
}

// Type names the kind of value in the help.
func (d *Duration) Type() string { return "duration" }

// OptDuration is a duration or forever, where not being set means something else than 0.
type OptDuration struct {
	Duration time.Duration
	IsSet    bool
}

// Forever is the longest duration.
const Forever = time.Duration(math.MaxInt64)

const forever = "forever"

// Set reads a duration, or forever.
func (o *OptDuration) Set(text string) error {
	o.IsSet = true
	if text == forever {
		o.Duration = Forever
		return nil
	}
	return (*Duration)(&o.Duration).Set(text)
}

func (o *OptDuration) String() string {
	switch {
	case !o.IsSet:
		return ""
	case o.Duration == Forever:
		return forever
	}
	return Duration(o.Duration).String()
}

// Type names the kind of value in the help.
func (o *OptDuration) Type() string { return "duration" }
