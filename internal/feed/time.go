package feed

import (
	"bytes"
	"time"
)

// A Clock is the part of an RFC 3339 time that follows the date.
type Clock struct {
	Seconds  int64  // since the day began, in UTC if there is a Zone; an offset may make it negative, or more than a day
	Fraction []byte // digits of a second after the point; a part of the text
	Zone     []byte // as written: "" (local time), Z, z, ±HH, ±HHMM or ±HH:MM
	Leap     bool   // it is a leap second, which Seconds counts as the next one
}

// IsRFC3339 reports whether the zone has a form that RFC 3339 knows, or is missing.
func (c *Clock) IsRFC3339() bool { return len(c.Zone) < 2 || len(c.Zone) == len("+01:00") }

// ReadClock reads T13:30:00, with a fraction and a zone or without. The T may be a t or a space.
func ReadClock(text []byte) (c Clock, ok bool) {
	const clock = "T13:30:00"
	if len(text) < len(clock) || text[0]|0x20 != 't' && text[0] != ' ' || text[3] != ':' || text[6] != ':' {
		return c, false
	}
	hour, minute, second := twoDigits(text[1:]), twoDigits(text[4:]), twoDigits(text[7:])
	if hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60 {
		return c, false
	}
	rest := text[len(clock):]
	if len(rest) > 0 && rest[0] == '.' {
		n := 1
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		if n == 1 {
			return c, false
		}
		c.Fraction, rest = rest[1:n], rest[n:]
	}
	offset, ok := readZone(rest)
	c.Seconds, c.Zone, c.Leap = int64((hour*60+minute-offset)*60+second), rest, second == 60
	return c, ok
}

// readZone returns the minutes of an offset from UTC.
func readZone(zone []byte) (minutes int, ok bool) {
	switch {
	case len(zone) == 0, len(zone) == 1 && zone[0]|0x20 == 'z':
		return 0, true
	case len(zone) < 3 || zone[0] != '+' && zone[0] != '-':
		return 0, false
	}
	hours, rest := twoDigits(zone[1:]), bytes.TrimPrefix(zone[3:], []byte(":"))
	if len(rest) == 2 {
		minutes = twoDigits(rest)
	} else if len(zone) != 3 {
		return 0, false
	}
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, false
	}
	if minutes += hours * 60; zone[0] == '-' {
		minutes = -minutes
	}
	return minutes, true
}

// twoDigits reads a number of two digits; -1 if it is none.
func twoDigits(b []byte) int {
	if !isDigit(b[0]) || !isDigit(b[1]) {
		return -1
	}
	return int(b[0]-'0')*10 + int(b[1]-'0')
}

// maxYear is the maximum number of digits of a year.
const maxYear = 7

// ReadDay reads YYYY-MM-DD at the start of a text. It returns the days since 1970 and the number of bytes read. The
// year may have a sign and up to seven digits, as in ISO 8601. bc reports that the year is BC.
func ReadDay(text []byte, bc bool) (days int64, n int, ok bool) {
	negative := false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		negative = text[0] == '-'
		n = 1
	}
	year, from := 0, n
	for n < len(text) && isDigit(text[n]) && n-from < maxYear {
		year = 10*year + int(text[n]-'0')
		n++
	}
	if n-from < 4 || len(text) < n+6 || text[n] != '-' || text[n+3] != '-' {
		return 0, 0, false
	}
	month, day := twoDigits(text[n+1:]), twoDigits(text[n+4:])
	if month < 1 || month > 12 || day < 1 || bc && (year == 0 || from > 0) {
		return 0, 0, false
	}
	if n += len("-05-15"); bc {
		year = 1 - year
	} else if negative {
		year = -year
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	return t.Unix() / (24 * 60 * 60), n, t.Day() == day
}

// An instant is a time that versions are compared by.
type instant struct {
	zoned    bool
	seconds  int64  // since 1970, of the local clock if not zoned
	fraction []byte // digits without trailing zeros
}

// readInstant reads an RFC 3339 time of the years 1 to 9999, whose zone may be missing.
func readInstant(text []byte) (t instant, ok bool) {
	const date = "2020-05-15"
	if len(text) < len(date) || text[4] != '-' || string(text[:4]) == "0000" {
		return t, false
	}
	days, _, ok := ReadDay(text, false)
	if !ok {
		return t, false
	}
	c, ok := ReadClock(text[len(date):])
	return instant{len(c.Zone) > 0, days*24*60*60 + c.Seconds, bytes.TrimRight(c.Fraction, "0")}, ok && c.IsRFC3339()
}
