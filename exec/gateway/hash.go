package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// interfaceHash is RGP's interface_hash of tools that are sorted by name: SHA-256 over their names and three schemas,
// as the text that Python's json.dumps gives with sorted keys, no spaces and ASCII alone. It tells integers from
// floats.
func interfaceHash(tools []*Tool) (string, error) {
	all := make([]any, 0, len(tools))
	for _, t := range tools {
		all = append(all, []any{t.Name, t.Input, t.Output, t.Error})
	}
	return hashOf(all)
}

func hashOf(v any) (string, error) {
	text, err := appendPython(nil, v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

func appendPython(dst []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendASCII(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		return appendFloat(dst, v), nil
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendPython(dst, item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendASCII(dst, key), ':')
			if dst, err = appendPython(dst, v[key]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	return nil, fmt.Errorf("a %T has no form in JSON", v)
}

// appendFloat writes a float as Python does: the shortest text that gives the same float, with an exponent below 1e-4
// and from 1e16 on.
func appendFloat(dst []byte, f float64) []byte {
	if size := math.Abs(f); f != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !bytes.ContainsRune(dst[from:], '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

func appendASCII(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			dst = append(dst, '\\', byte(r))
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		default:
			switch {
			case r >= ' ' && r <= '~':
				dst = utf8.AppendRune(dst, r)
			case r > 0xffff:
				high, low := utf16.EncodeRune(r)
				dst = fmt.Appendf(dst, `\u%04x\u%04x`, high, low)
			default:
				dst = fmt.Appendf(dst, `\u%04x`, r)
			}
		}
	}
	return append(dst, '"')
}
