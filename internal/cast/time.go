package cast

import (
	"bytes"
	"fmt"
	"math"

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
	if c.shift == 0 && len(text) <= 12 && isCount(text) {
		for _, c := range text {
			m.seconds = 10*m.seconds + int64(c-'0')
		}
	} else if d, ok := r.number(text); ok {
		d.point -= c.shift
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
func (r *Reader) elapsed(d decimal) (m moment, why string) {
	switch {
	case len(d.digits) == 0:
		return m, ""
	case d.point > 13:
		return m, wrongYear
	}
	whole := max(0, min(d.point, len(d.digits)))
	for _, c := range d.digits[:whole] {
		m.seconds = 10*m.seconds + int64(c-'0')
	}
	for range max(0, d.point-whole) {
		m.seconds *= 10
	}
	if len(d.digits)-d.point > maxSeconds {
		return m, "it has too many digits"
	}
	m.fraction = d.digits[whole:]
	if zeros := -d.point; zeros > 0 {
		r.zeros = append(append(r.zeros[:0], bytes.Repeat([]byte("0"), zeros)...), m.fraction...)
		m.fraction = r.zeros
	}
	if d.negative {
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
	const clock = "T13:30:00"
	text, bc := bytes.CutSuffix(text, beforeChrist)
	days, n, ok := readDay(text, bc)
	if len(text) < n+len(clock) || len(text) == n+len(clock) && !utc {
		return m, false, noTime
	}
	plain := n == len("2020-05-15") && days >= firstOfYear1
	text = text[n:]
	if text[3] != ':' || text[6] != ':' {
		return m, false, noTime
	}
	hour, minute, second := twoDigits(text[1:]), twoDigits(text[4:]), twoDigits(text[7:])
	switch {
	case text[0] != 'T' && text[0] != 't' && text[0] != ' ':
		return m, false, noTime
	case !ok || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60:
		return m, false, noTime
	case second == 60:
		return m, false, "it is a leap second, which databases do not have"
	}
	rest := text[len(clock):]
	if len(rest) > 0 && rest[0] == '.' {
		n := 1
		for n < len(rest) && isDigit(rest[n]) {
			n++
		}
		if n == 1 || n == len(rest) && !utc {
			return m, false, noTime
		}
		if m.fraction = rest[1:n]; n > maxSeconds {
			return m, false, "it has too many digits"
		}
		rest = rest[n:]
	}
	canonical = plain && text[0] == 'T' && string(rest) == "Z" && !bytes.HasSuffix(m.fraction, []byte("0"))
	m.fraction = bytes.TrimRight(m.fraction, "0")
	offset := 0
	if utc {
		rest = wholeOffset(rest)
	}
	switch {
	case utc && len(rest) == 0:
	case len(rest) == 1 && (rest[0] == 'Z' || rest[0] == 'z'):
	case len(rest) == 6 && (rest[0] == '+' || rest[0] == '-') && rest[3] == ':':
		hours, minutes := twoDigits(rest[1:]), twoDigits(rest[4:])
		if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
			return m, false, noTime
		}
		if offset = hours*60 + minutes; rest[0] == '-' {
			offset = -offset
		}
	default:
		return m, false, noTime
	}
	m.seconds = days*secondsPerDay + int64((hour*60+minute-offset)*60+second)
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

// wholeOffset adds the minutes or the colon that an offset lacks in RFC 3339.
func wholeOffset(text []byte) []byte {
	if len(text) > 0 && (text[0] == '+' || text[0] == '-') {
		switch len(text) {
		case 3:
			return []byte{text[0], text[1], text[2], ':', '0', '0'}
		case 5:
			return []byte{text[0], text[1], text[2], ':', text[3], text[4]}
		}
	}
	return text
}

// twoDigits reads a number of two digits; -1 if it is none.
func twoDigits(b []byte) int {
	if !isDigit(b[0]) || !isDigit(b[1]) {
		return -1
	}
	return int(b[0]-'0')*10 + int(b[1]-'0')
}

var monthDays = [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// beforeChrist follows dates before year 1 in Postgres.
var beforeChrist = []byte(" BC")

// readDay reads YYYY-MM-DD at the start of a text. It returns the days since 1970 and the number of bytes read. The
// year may have a sign and more digits, as in ISO 8601. bc reports that the year is BC.
func readDay(text []byte, bc bool) (days int64, n int, ok bool) {
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
	last := monthDays[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		last++
	}
	if day > last {
		return 0, 0, false
	}
	// In years that start in March the leap day is the last day.
	if month -= 3; month < 0 {
		month += 12
		year--
	}
	era := floor(int64(year), 400)
	inEra := year - 400*int(era)
	dayOfYear := (153*month+2)/5 + day - 1
	return era*146097 + int64(inEra*365+inEra/4-inEra/100+dayOfYear) - 719468, n, true
}

// maxYear is the maximum number of digits of a year.
const maxYear = 7

// floor divides and rounds down.
func floor(n, by int64) int64 {
	q := n / by
	if n%by < 0 {
		q--
	}
	return q
}

// appendDay is the inverse of readDay. If text is true (SQLite), years before 1 have the sign of ISO 8601; for
// Postgres, appendEra must follow.
func appendDay(dst []byte, days int64, text bool) []byte {
	days += 719468
	era := floor(days, 146097)
	n := int(days - era*146097)
	inEra := (n - n/1460 + n/36524 - n/146096) / 365
	dayOfYear := n - (365*inEra + inEra/4 - inEra/100)
	month := (5*dayOfYear + 2) / 153
	day := dayOfYear - (153*month+2)/5 + 1
	year := inEra + 400*int(era)
	if month += 3; month > 12 {
		month -= 12
		year++
	}
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
	dst = appendTwo(append(dst, '-'), month)
	return appendTwo(append(dst, '-'), day)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10), '0'+byte(n%10)) }

// appendTo appends a moment as RFC 3339, or if text is true as SQLite's text without a zone.
func (m *moment) appendTo(dst []byte, text bool) []byte {
	day, second := m.seconds/secondsPerDay, int(m.seconds%secondsPerDay)
	if second < 0 {
		day, second = day-1, second+secondsPerDay
	}
	separator := byte('T')
	if text {
		separator = ' '
	}
	dst = appendTwo(append(appendDay(dst, day, text), separator), second/3600)
	dst = appendTwo(append(dst, ':'), second/60%60)
	dst = appendTwo(append(dst, ':'), second%60)
	if len(m.fraction) > 0 {
		dst = append(append(dst, '.'), m.fraction...)
	}
	if !text {
		dst = append(dst, 'Z')
	}
	return appendEra(dst, day, text)
}

// appendEra appends Postgres' suffix for years before 1.
func appendEra(dst []byte, days int64, text bool) []byte {
	if text || days >= firstOfYear1 {
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
	days, n, ok := readDay(text, bc)
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
	from := len(r.bytes)
	r.bytes = appendEra(appendDay(append(r.bytes, '"'), days, c.textTime), days, c.textTime)
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String)
}
