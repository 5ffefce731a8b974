package fields

import (
	"math"
	"strconv"
	"strings"
)

// A Decimal is an exact decimal number: ±0.digits × 10^exp. Money and limits use it, never doubles, and a hostile
// file's exponent can't make one large.
type Decimal struct {
	neg    bool
	digits string // without zeros at its ends; "" is zero
	exp    int
}

// maxExponent bounds exponents; a text with a larger one is invalid.
const maxExponent = 400

// ParseDecimal parses a JSON number. It allows any number of digits, and leading zeros.
func ParseDecimal(text string) (decimal Decimal, ok bool) {
	rest, neg := strings.CutPrefix(text, "-")
	mantissa := rest
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		n, err := strconv.Atoi(rest[i+1:])
		if err != nil || n > maxExponent || n < -maxExponent {
			return Decimal{}, false
		}
		mantissa, decimal.exp = rest[:i], n
	}
	whole, part, point := strings.Cut(mantissa, ".")
	if !IsDigits(whole) || point && !IsDigits(part) {
		return Decimal{}, false
	}
	trimmed := strings.TrimLeft(whole, "0")
	decimal.exp += len(trimmed)
	digits := trimmed + part
	if trimmed == "" {
		digits = strings.TrimLeft(part, "0")
		decimal.exp -= len(part) - len(digits)
	}
	if decimal.digits = strings.TrimRight(digits, "0"); decimal.digits == "" {
		return Decimal{}, true
	}
	decimal.neg = neg
	return decimal, true
}

// IsDigits reports whether a text is one or more of 0 to 9.
func IsDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Compare orders two numbers.
func (d Decimal) Compare(o Decimal) int {
	switch {
	case d.Sign() != o.Sign():
		if d.Sign() < o.Sign() {
			return -1
		}
		return 1
	case d.neg:
		return o.magnitude(d)
	}
	return d.magnitude(o)
}

// Sign returns -1, 0 or 1.
func (d Decimal) Sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.neg:
		return -1
	}
	return 1
}

// magnitude compares without signs.
func (d Decimal) magnitude(o Decimal) int {
	switch {
	case d.exp < o.exp:
		return -1
	case d.exp > o.exp:
		return 1
	}
	return strings.Compare(d.digits, o.digits)
}

// Scaled returns d × 10^places, if that is an integer in the range of an int64.
func (d Decimal) Scaled(places int) (int64, bool) {
	n := d.exp + places - len(d.digits)
	if d.digits == "" {
		return 0, true
	}
	if n < 0 || len(d.digits)+n > 19 {
		return 0, false
	}
	u, err := strconv.ParseUint(d.digits+strings.Repeat("0", n), 10, 64)
	if err != nil || u > math.MaxInt64 {
		return 0, false
	}
	if d.neg {
		return -int64(u), true
	}
	return int64(u), true
}

// String returns the canonical form, without exponent and superfluous zeros.
func (d Decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	text := ""
	switch n := len(d.digits); {
	case d.exp <= 0:
		text = "0." + strings.Repeat("0", -d.exp) + d.digits
	case d.exp < n:
		text = d.digits[:d.exp] + "." + d.digits[d.exp:]
	default:
		text = d.digits + strings.Repeat("0", d.exp-n)
	}
	if d.neg {
		return "-" + text
	}
	return text
}
