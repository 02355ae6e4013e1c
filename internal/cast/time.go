package cast

import (
	"bytes"
	"fmt"
	"math"

	"github.com/weirsync/weir/internal/feed"
)

// The seconds since 1970 at which the years that databases and RFC 3339 know begin and end: 1
// and 9999.
const (
	firstSecond = -62135596800
	lastSecond  = 253402300799
)

const secondsPerDay = 24 * 60 * 60

// A moment is a point in time: seconds since 1970 in UTC, and the digits of a fraction of the
// next one, without zeros at the end.
type moment struct {
	seconds  int64
	fraction []byte
}

const (
	noTime    = "it is not a timestamp: neither as RFC 3339 has it, such as 2020-05-15T13:30:00Z, nor a number"
	wrongYear = "it is not in the years 1 to 9999"
)

func (r *Reader) readTime(v *feed.Field, c *Cast) (feed.Field, string) {
	if v.Kind == feed.Bool {
		return *v, noTime
	}
	text := r.Text(v)
	m, asItIs, why := moment{}, false, ""
	if c.shift == 0 && len(text) <= 12 && isCount(text) {
		for _, c := range text {
			m.seconds = 10*m.seconds + int64(c-'0')
		}
	} else if d, ok := r.number(text); ok {
		d.point -= c.shift
		m, why = r.elapsed(d)
	} else if c.shift == 0 {
		m, asItIs, why = readRFC3339(text, c.utc)
	} else {
		why = "it is not a number"
	}
	switch {
	case why != "":
		return *v, why
	case m.seconds < firstSecond || m.seconds > lastSecond:
		return *v, wrongYear
	case len(m.fraction) > c.fraction:
		return *v, fmt.Sprintf("it has more than %s of a second", digits(c.fraction))
	case asItIs && !c.textTime && len(text) == len(v.Value)-2:
		return *v, ""
	}
	from := len(r.bytes)
	r.bytes = m.appendTo(append(r.bytes, '"'), c.textTime)
	r.bytes = append(r.bytes, '"')
	return r.made(from, feed.String), ""
}

// elapsed is the moment that many seconds after 1970.
func (r *Reader) elapsed(d decimal) (m moment, why string) {
	switch {
	case len(d.digits) == 0:
		return m, ""
	case d.point > 12:
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
		if n := len(m.fraction); n > 0 { // the rest of the second before
			m.seconds--
			for i := range m.fraction[:n-1] {
				m.fraction[i] = '0' + '9' - m.fraction[i]
			}
			m.fraction[n-1] = '0' + '9' + 1 - m.fraction[n-1]
		}
	}
	return m, ""
}

// readRFC3339 reads a point in time. utc takes one without an offset, which is in UTC, and an offset
// without minutes or without a colon. asItIs tells that it is spelled as appendTo spells it.
func readRFC3339(text []byte, utc bool) (m moment, asItIs bool, why string) {
	const form = "2020-05-15T13:30:00"
	if len(text) < len(form) || len(text) == len(form) && !utc || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':' {
		return m, false, noTime
	}
	days, ok := readDay(text[:10])
	hour, minute, second := twoDigits(text[11:]), twoDigits(text[14:]), twoDigits(text[17:])
	switch {
	case text[10] != 'T' && text[10] != 't' && text[10] != ' ':
		return m, false, noTime
	case !ok || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60:
		return m, false, noTime
	case second == 60:
		return m, false, "it is a leap second, which databases do not have"
	}
	rest := text[19:]
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
	asItIs = text[10] == 'T' && string(rest) == "Z" && !bytes.HasSuffix(m.fraction, []byte("0"))
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
	return m, asItIs, ""
}

// Nanoseconds returns how many nanoseconds after 1970 an RFC 3339 time is. ok is false for one that is before, or
// that nanoseconds do not tell.
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

// wholeOffset spells an offset as RFC 3339 does, where it has no minutes or no colon.
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

// twoDigits reads a number of two digits; -1 is none.
func twoDigits(b []byte) int {
	if !isDigit(b[0]) || !isDigit(b[1]) {
		return -1
	}
	return int(b[0]-'0')*10 + int(b[1]-'0')
}

var monthDays = [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// readDay reads YYYY-MM-DD as days since 1970.
func readDay(text []byte) (days int64, ok bool) {
	if len(text) != 10 || text[4] != '-' || text[7] != '-' {
		return 0, false
	}
	century, year, month, day := twoDigits(text), twoDigits(text[2:]), twoDigits(text[5:]), twoDigits(text[8:])
	if century < 0 || year < 0 || month < 1 || month > 12 || day < 1 {
		return 0, false
	}
	year += 100 * century
	last := monthDays[month-1]
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		last++
	}
	if day > last {
		return 0, false
	}
	// Years that begin in March have their leap day at the end.
	if month -= 3; month < 0 {
		month += 12
		year--
	}
	era := (year+400)/400 - 1 // of a year that may be -1
	inEra := year - 400*era
	dayOfYear := (153*month+2)/5 + day - 1
	return int64(era)*146097 + int64(inEra*365+inEra/4-inEra/100+dayOfYear) - 719468, true
}

// appendDay is the inverse.
func appendDay(dst []byte, days int64) []byte {
	days += 719468
	era := days / 146097 // no day of the years 1 to 9999 is before 0
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
	dst = appendTwo(appendTwo(dst, year/100), year%100)
	dst = appendTwo(append(dst, '-'), month)
	return appendTwo(append(dst, '-'), day)
}

func appendTwo(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10), '0'+byte(n%10)) }

// appendTo appends a moment as RFC 3339 has it, or as text without a zone.
func (m *moment) appendTo(dst []byte, text bool) []byte {
	day, second := m.seconds/secondsPerDay, int(m.seconds%secondsPerDay)
	if second < 0 {
		day, second = day-1, second+secondsPerDay
	}
	separator := byte('T')
	if text {
		separator = ' '
	}
	dst = appendTwo(append(appendDay(dst, day), separator), second/3600)
	dst = appendTwo(append(dst, ':'), second/60%60)
	dst = appendTwo(append(dst, ':'), second%60)
	if len(m.fraction) > 0 {
		dst = append(append(dst, '.'), m.fraction...)
	}
	if !text {
		dst = append(dst, 'Z')
	}
	return dst
}

const noDate = "it is not a date such as 2020-05-15"

func (r *Reader) readDate(v *feed.Field, _ *Cast) (feed.Field, string) {
	if v.Kind != feed.String {
		return *v, noDate
	}
	text := r.Text(v)
	days, ok := readDay(text)
	switch {
	case !ok:
		return *v, noDate
	case days < firstSecond/secondsPerDay:
		return *v, wrongYear
	case len(text) == len(v.Value)-2:
		return *v, ""
	}
	return r.day(days), ""
}

func (r *Reader) readDays(v *feed.Field, _ *Cast) (feed.Field, string) {
	days, why := r.integer(v)
	switch {
	case why != "":
		return *v, why
	case days < firstSecond/secondsPerDay || days > lastSecond/secondsPerDay:
		return *v, wrongYear
	}
	return r.day(days), ""
}

func (r *Reader) day(days int64) feed.Field {
	from := len(r.bytes)
	r.bytes = append(appendDay(append(r.bytes, '"'), days), '"')
	return r.made(from, feed.String)
}
