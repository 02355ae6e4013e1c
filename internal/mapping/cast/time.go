package cast

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/weirsync/weir/internal/feed"
)

const secondsPerDay = 24 * 60 * 60

// Days and seconds since 1970 at the limits of Postgres' types: from 4714 BC to the years 5874897 and 294276.
const (
	firstDay    = -2440588
	lastDay     = 2145042905
	firstSecond = firstDay * secondsPerDay
	lastSecond  = 9224318015999
)

// The first day of year 1 and the last second of year 9999, since 1970.
const (
	firstOfYear1   = -719162
	lastOfYear9999 = 253402300799
)

// infinities are the values stored for infinite times and dates. The key is true for negative ones.
var infinities = map[bool][]byte{true: []byte(`"-infinity"`), false: []byte(`"infinity"`)}

// infiniteTimes are the numbers that Debezium sends for infinite timestamps, in milliseconds, microseconds and
// nanoseconds. The value is true for negative ones.
var infiniteTimes = map[string]bool{
	"9223372036825200000": false, "9223372036825200": false, "9223372036854775807": false,
	"-9223372036832400000": true, "-9223372036832400": true, "-9223372036854775808": true,
}

// infiniteDays are the numbers that Debezium sends for infinite dates. Some versions send the positive one with the
// wrong sign.
var infiniteDays = map[int64]bool{2146033979: false, -2147472692: false, math.MaxInt32: false, -2147472691: true, math.MinInt32: true}

// isInfinity reports whether a text is "infinity" or "-infinity".
func isInfinity(text []byte) (negative, ok bool) {
	rest, negative := bytes.CutPrefix(text, []byte("-"))
	return negative, bytes.EqualFold(rest, []byte("infinity"))
}

// A moment is a point in time: seconds since 1970 in UTC, and the digits of a fraction of a second without trailing
// zeros.
type moment struct {
	seconds  int64
	fraction []byte
}

const (
	noTime    = "it is not a timestamp: neither RFC 3339, such as 2020-05-15T13:30:00Z, nor a number"
	wrongYear = "it is outside the years that databases store"
	lateText  = "it is after the year 9999, and such a text would sort before others"
	lateYear  = "it is after the year 9999: the number may have another unit"
)

func (r *Reader) readTime(v *feed.Field, c *Cast) (feed.Field, string) {
	if v.Kind == feed.Bool {
		return *v, noTime
	}
	text := r.Text(v)
	m, canonical, isNumber, why := moment{}, false, true, ""
	if d, ok := r.number(text); ok {
		d.Point -= c.shift
		m, why = r.elapsed(d)
	} else if c.shift == 0 {
		m, canonical, why = readRFC3339(text, c.utc)
		isNumber = false
	} else {
		why = "it is not a number"
	}
	negative, infinite := c.infinite(text, &m, why != "")
	switch {
	case infinite:
		return feed.Field{Value: infinities[negative], Kind: feed.String}, ""
	case why != "":
		return *v, why
	case m.seconds < firstSecond || m.seconds > lastSecond:
		return *v, wrongYear
	case m.seconds > lastOfYear9999 && isNumber && !c.SureUnit:
		return *v, lateYear
	case m.seconds > lastOfYear9999 && c.textTime:
		return *v, lateText
	case canonical && !c.textTime && len(text) == len(v.Value)-2:
		return *v, ""
	}
	from := len(r.bytes)
	r.bytes = m.appendTo(append(r.bytes, '"'), c.textTime)
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String), ""
}

// infinite reports whether a text means an infinite time. m is the time that it means otherwise; bad reports that it
// means none.
func (c *Cast) infinite(text []byte, m *moment, bad bool) (negative, ok bool) {
	if bad {
		if negative, ok = isInfinity(text); ok {
			return negative, ok
		}
	}
	// In nanoseconds, 64 bits cover only the years 1677 to 2262.
	if bad || m.seconds < firstSecond || m.seconds > lastOfYear9999 || c.shift == 9 && len(text) >= len("9223372036854775807") {
		negative, ok = infiniteTimes[string(text)]
	}
	return negative, ok
}

// elapsed returns the moment d seconds after 1970.
func (r *Reader) elapsed(d feed.Decimal) (m moment, why string) {
	switch {
	case len(d.Digits) == 0:
		return m, ""
	case d.Point > 13:
		return m, wrongYear
	}
	whole := max(0, min(d.Point, len(d.Digits)))
	for _, c := range d.Digits[:whole] {
		m.seconds = 10*m.seconds + int64(c-'0')
	}
	for range max(0, d.Point-whole) {
		m.seconds *= 10
	}
	if len(d.Digits)-d.Point > maxSeconds {
		return m, "it has too many digits"
	}
	m.fraction = d.Digits[whole:]
	if zeros := -d.Point; zeros > 0 {
		r.zeros = append(append(r.zeros[:0], bytes.Repeat([]byte("0"), zeros)...), m.fraction...)
		m.fraction = r.zeros
	}
	if d.Negative {
		m.seconds = -m.seconds
		if n := len(m.fraction); n > 0 { // count the fraction from the second before
			m.seconds--
			for i := range m.fraction[:n-1] {
				m.fraction[i] = '0' + '9' - m.fraction[i]
			}
			m.fraction[n-1] = '0' + '9' + 1 - m.fraction[n-1]
		}
	}
	return m, ""
}

// readRFC3339 reads a point in time. If utc is set, the offset may be missing (it is then UTC), or lack minutes or
// the colon. canonical reports whether the text is what appendTo writes.
func readRFC3339(text []byte, utc bool) (m moment, canonical bool, why string) {
	text, bc := bytes.CutSuffix(text, beforeChrist)
	days, n, ok := feed.ReadDay(text, bc)
	if !ok {
		return m, false, noTime
	}
	c, ok := feed.ReadClock(text[n:])
	switch {
	case !ok, !utc && !c.IsRFC3339(), !utc && len(c.Zone) == 0:
		return m, false, noTime
	case c.Leap:
		return m, false, "it is a leap second, which databases do not have"
	case len(c.Fraction) >= maxSeconds:
		return m, false, "it has too many digits"
	}
	plain := n == len("2020-05-15") && days >= firstOfYear1
	canonical = plain && text[n] == 'T' && string(c.Zone) == "Z" && !bytes.HasSuffix(c.Fraction, []byte("0"))
	m.fraction = bytes.TrimRight(c.Fraction, "0")
	m.seconds = days*secondsPerDay + c.Seconds
	return m, canonical, ""
}

// Nanoseconds returns an RFC 3339 time as nanoseconds after 1970. ok is false for an earlier time, or one that
// nanoseconds cannot express.
func Nanoseconds(text []byte) (n uint64, ok bool) {
	m, _, why := readRFC3339(text, false)
	n = uint64(m.seconds)
	for i := range 9 {
		n *= 10
		if i < len(m.fraction) {
			n += uint64(m.fraction[i] - '0')
		}
	}
	return n, why == "" && len(m.fraction) <= 9 && m.seconds >= 0 && m.seconds < math.MaxInt64/1_000_000_000
}

// beforeChrist follows dates before year 1 in Postgres.
var beforeChrist = []byte(" BC")

// appendDay appends the date of a time. If text is true (SQLite), years before 1 have the sign of ISO 8601; for Postgres,
// appendEra must follow.
func appendDay(dst []byte, t time.Time, text bool) []byte {
	year, month, day := t.Date()
	switch {
	case 1 <= year && year <= 9999:
		dst = appendTwo(appendTwo(dst, year/100), year%100)
	case text && year < 0:
		dst = fmt.Appendf(dst, "-%04d", -year)
	case text || year > 0:
		dst = fmt.Appendf(dst, "%04d", year)
	default:
		dst = fmt.Appendf(dst, "%04d", 1-year)
	}
	return appendTwo(append(appendTwo(append(dst, '-'), int(month)), '-'), day)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10), '0'+byte(n%10)) }

// appendTo appends a moment as RFC 3339, or if text is true as SQLite's text without a zone.
func (m *moment) appendTo(dst []byte, text bool) []byte {
	t, separator := time.Unix(m.seconds, 0).UTC(), byte('T')
	if text {
		separator = ' '
	}
	hour, minute, second := t.Clock()
	dst = appendTwo(append(appendDay(dst, t, text), separator), hour)
	dst = appendTwo(append(appendTwo(append(dst, ':'), minute), ':'), second)
	if len(m.fraction) > 0 {
		dst = append(append(dst, '.'), m.fraction...)
	}
	if !text {
		dst = append(dst, 'Z')
	}
	return appendEra(dst, t, text)
}

// appendEra appends Postgres' suffix for years before 1.
func appendEra(dst []byte, t time.Time, text bool) []byte {
	if text || t.Year() >= 1 {
		return dst
	}
	return append(dst, beforeChrist...)
}

const noDate = "it is not a date such as 2020-05-15"

func (r *Reader) readDate(v *feed.Field, c *Cast) (feed.Field, string) {
	if v.Kind != feed.String {
		return *v, noDate
	}
	text := r.Text(v)
	if negative, ok := isInfinity(text); ok {
		return feed.Field{Value: infinities[negative], Kind: feed.String}, ""
	}
	text, bc := bytes.CutSuffix(text, beforeChrist)
	days, n, ok := feed.ReadDay(text, bc)
	switch {
	case !ok || n < len(text):
		return *v, noDate
	case days < firstDay || days > lastDay:
		return *v, wrongYear
	case days > lastOfYear9999/secondsPerDay && c.textTime:
		return *v, lateText
	case len(text) == len(v.Value)-2 && n == len("2020-05-15") && days >= firstOfYear1:
		return *v, ""
	}
	return r.day(days, c), ""
}

func (r *Reader) readDays(v *feed.Field, c *Cast) (feed.Field, string) {
	days, why := r.integer(v)
	negative, infinite := infiniteDays[days]
	switch {
	case why != "":
		return *v, why
	case infinite:
		return feed.Field{Value: infinities[negative], Kind: feed.String}, ""
	case days < firstDay || days > lastDay:
		return *v, wrongYear
	case days > lastOfYear9999/secondsPerDay && !c.SureUnit:
		return *v, lateYear
	case days > lastOfYear9999/secondsPerDay && c.textTime:
		return *v, lateText
	}
	return r.day(days, c), ""
}

func (r *Reader) day(days int64, c *Cast) feed.Field {
	from, t := len(r.bytes), time.Unix(days*secondsPerDay, 0).UTC()
	r.bytes = appendEra(appendDay(append(r.bytes, '"'), t, c.textTime), t, c.textTime)
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String)
}
