// Package scalar parses plain scalars of YAML.
//
// YAML 1.1 and 1.2 disagree about some scalars. If a person could mean text, the scalar is text here, with a
// warning.
package scalar

import (
	"math/big"
	"strings"

	"github.com/rye-build/rye/ai/value"
	"github.com/rye-build/rye/cas/fault"
)

// A Scalar is the meaning of a plain scalar. Warning and Problem are messages, or empty.
type Scalar struct {
	Kind    value.Kind
	Text    string
	Warning string
	Problem string
}

// maxDigits bounds numbers in other bases, whose conversion takes more than linear time.
const maxDigits = 1000

// Plain parses a scalar without quotes.
func Plain(text string) Scalar {
	asText := Scalar{Kind: value.Text, Text: text}
	if text == "" || text == "~" {
		return Scalar{Kind: value.Null}
	}
	switch c := text[0]; {
	case c >= '0' && c <= '9' || c == '-' || c == '+' || c == '.':
		return plainNumber(text)
	case len(text) > 5:
		return asText
	}
	switch text {
	case "null", "Null", "NULL":
		return Scalar{Kind: value.Null}
	case "true", "True", "TRUE":
		return Scalar{Kind: value.Bool, Text: "true"}
	case "false", "False", "FALSE":
		return Scalar{Kind: value.Bool, Text: "false"}
	case "yes", "Yes", "YES", "on", "On", "ON", "y", "Y":
		asText.Warning = quoteIt(text, "true")
	case "no", "No", "NO", "off", "Off", "OFF", "n", "N":
		asText.Warning = quoteIt(text, "false")
	}
	return asText
}

func quoteIt(s, other string) string {
	return s + ` is the text "` + s + `" here and ` + other + ` to other readers: write "` + s + `" or ` + other
}

func plainNumber(text string) Scalar {
	asText := Scalar{Kind: value.Text, Text: text}
	sign, digits := "", text
	if text[0] == '-' || text[0] == '+' {
		sign, digits = strings.TrimPrefix(text[:1], "+"), text[1:]
	}
	switch digits {
	case ".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN":
		asText.Problem = text + " is a number that JSON doesn't have"
		return asText
	case "":
		return asText
	}
	var ok bool
	if sexagesimal(digits) {
		asText.Warning = fault.Clip(text, 60) +
			" is a text here and a number in base 60 to other readers: put it in quotes"
		return asText
	}
	if digits, ok = ungroup(digits); !ok {
		return asText
	}
	if len(digits) > 1 && digits[0] == '0' {
		switch digits[1] {
		case 'x':
			return based(text, sign, digits[2:], 16)
		case 'o':
			return based(text, sign, digits[2:], 8)
		case 'b':
			return based(text, sign, digits[2:], 2)
		}
		if strings.Trim(digits, "0123456789") == "" {
			return leadingZero(text, sign, digits)
		}
	}
	if kind, number, ok := Decimal(sign + digits); ok {
		return Scalar{Kind: kind, Text: number}
	}
	return asText
}

// sexagesimal reports whether a text has the form 12:30, which is 750 in YAML 1.1.
func sexagesimal(s string) bool {
	parts := strings.Split(s, ":")
	for i, p := range parts {
		if i == 0 && (p == "" || p[0] == '0' || strings.Trim(p, "0123456789_") != "") ||
			i > 0 && (p == "" || len(p) > 2 || strings.Trim(p, "0123456789") != "" || len(p) == 2 && p[0] > '5') {
			return false
		}
	}
	return len(parts) > 1
}

// ungroup removes underscores. Each must be between two digits.
func ungroup(text string) (string, bool) {
	if !strings.Contains(text, "_") {
		return text, true
	}
	const digits = "0123456789abcdefABCDEF"
	for i := range len(text) {
		if text[i] == '_' && (i == 0 || i == len(text)-1 ||
			strings.IndexByte(digits, text[i-1]) < 0 || strings.IndexByte(digits, text[i+1]) < 0) {
			return text, false
		}
	}
	return strings.ReplaceAll(text, "_", ""), true
}

// leadingZero parses numbers like 017, which is octal only in YAML 1.1, and 089, which is a number only in 1.2.
func leadingZero(s, sign, digits string) Scalar {
	octal := based(s, sign, digits[1:], 8)
	if octal.Kind != value.Int {
		octal.Warning = fault.Clip(s, 60) + " is a text here and a number to other readers: put it in quotes"
		return octal
	}
	_, number, _ := Decimal(sign + digits)
	if number != octal.Text {
		octal.Warning = fault.Clip(s, 60) + " is octal here, " + fault.Clip(octal.Text,
			60) + ", and " + fault.Clip(number, 60) + " to other readers: write "
		if spelt := fault.Clip(sign+"0o"+digits[1:], 60) + " or " + fault.Clip(number,
			60); len(octal.Warning)+len(spelt) <= 300 {
			octal.Warning += spelt
		} else {
			octal.Warning += "it with 0o or without the zero"
		}
	}
	return octal
}

// based parses an integer in a base. Anything else is text.
func based(s, sign, digits string, base int) Scalar {
	asText := Scalar{Kind: value.Text, Text: s}
	if strings.Trim(digits, "0123456789abcdefABCDEF") != "" || digits == "" {
		return asText
	}
	if len(digits) > maxDigits {
		asText.Problem = "a number has more than 1000 digits"
		return asText
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return asText
	}
	if sign == "-" {
		n.Neg(n)
	}
	return Scalar{Kind: value.Int, Text: n.String()}
}

// Decimal parses a decimal number, such as -1, 007, .5, 1., +2.50 or 1e3, and returns it in JSON's form with all
// its digits.
func Decimal(text string) (value.Kind, string, bool) {
	sign := ""
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, text = strings.TrimPrefix(text[:1], "+"), text[1:]
	}
	whole, text := cutDigits(text)
	kind, fraction := value.Int, ""
	if text != "" && text[0] == '.' {
		kind = value.Float
		fraction, text = cutDigits(text[1:])
	}
	if whole == "" && fraction == "" {
		return 0, "", false
	}
	exponent := ""
	if text != "" && (text[0] == 'e' || text[0] == 'E') {
		kind = value.Float
		exponent, text = "e", text[1:]
		if text != "" && (text[0] == '-' || text[0] == '+') {
			exponent, text = exponent+text[:1], text[1:]
		}
		var digits string
		if digits, text = cutDigits(text); digits == "" {
			return 0, "", false
		}
		exponent += digits
	}
	if text != "" {
		return 0, "", false
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if kind == value.Int {
		if whole == "0" {
			sign = ""
		}
		return kind, sign + whole, true
	}
	if fraction == "" && exponent == "" {
		fraction = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return kind, sign + whole + fraction + exponent, true
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return s[:i], s[i:]
}
