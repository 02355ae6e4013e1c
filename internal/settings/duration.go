package settings

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration parses a duration that is not negative.
func ParseDuration(text string) (sum time.Duration, err error) {
	wrong := fmt.Errorf("%q is not a duration, such as 500ms, 10s, 1h or 7d", text)
	days, rest, has := strings.Cut(text, "d")
	if has {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, wrong
		}
		sum = time.Duration(n) * day
	} else {
		rest = text
	}
	if rest != "" || !has {
		d, err := time.ParseDuration(rest)
		if err != nil || has && sum+d < sum {
			return 0, wrong
		}
		sum += d
	}
	if sum < 0 {
		return 0, errors.New("cannot be negative")
	}
	return sum, nil
}

// DurationText formats a duration for ParseDuration.
func DurationText(d time.Duration) string {
	if d <= 0 || d%day != 0 {
		return d.String()
	}
	return strconv.FormatInt(int64(d/day), 10) + "d"
}
