package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// spell adds the forms of a secret to found.
func spell(found map[string]bool, text string) {
	if len(text) < Shortest {
		return
	}
	data := []byte(text)
	digits := hex.EncodeToString(data)
	escaped, html := escapes(text, false), escapes(text, true)
	for _, f := range []string{
		text, digits, strings.ToUpper(digits), url.QueryEscape(text), percent(digits, ""),
		percent(strings.ToUpper(digits), ""),
		base64.RawStdEncoding.EncodeToString(data), base64.RawURLEncoding.EncodeToString(data),
	} {
		found[f] = true
	}
	for _, keep := range kept {
		keep += "-_.~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
		found[percent(digits, keep)], found[percent(strings.ToUpper(digits), keep)] = true, true
	}
	for _, f := range []string{escaped, html, strings.ReplaceAll(escaped, "/", `\/`), ascii(escaped), ascii(html)} {
		found[f], found[escapes(f, false)] = true, true
	}
	// Base64 with other bytes before the secret: take the characters that the secret alone determines.
	for before := range 3 {
		from, to := (8*before+5)/6, 8*(before+len(data))/6
		shifted := append(make([]byte, before), data...)
		for _, e := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			found[e.EncodeToString(shifted)[from:to]] = true
		}
		for _, width := range []int{64, 76} {
			each := 4
			if len(text) > Wrapped {
				each = width
			}
			wrap(found, base64.RawStdEncoding.EncodeToString(shifted)[:to], from, width, each)
		}
	}
	if !strings.Contains(text, "\n") {
		return
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); len(line) >= Line {
			spell(found, line)
		}
	}
}

// wrap adds the forms of base64 text that is broken into lines, as base64, openssl and mail do, with a break after
// each so many characters: lines end between groups of four. Each line is a form by itself, so that indented and
// quoted lines match as well. A piece shorter than Line is a form only together with the next line, since alone it
// would match everywhere.
func wrap(found map[string]bool, text string, from, width, each int) {
	for at := each; at < len(text); at += each {
		start, end := max(from, at-width), min(at+width, len(text))
		if end-at >= Line {
			found[text[at:end]] = true
		}
		if at <= width && at-start >= Line {
			found[text[start:at]] = true
		}
		if at-start < Line || end-at < Line {
			for _, ends := range []string{"\n", "\r\n", `\n`, `\r\n`} {
				found[text[start:at]+ends+text[at:end]] = true
			}
		}
	}
}

// kept lists the bytes that URL encoders leave unescaped, in addition to letters, digits and -_.~: in a query,
// url.PathEscape, quote of Python, encodeURIComponent and encodeURI of JavaScript, net/url of a path, and our own
// HTTP client.
var kept = []string{"", "$&+:=@", "/", "!'()*", "!'()*#$&+,/:;=?@", "$&+,/:;=@", "!'()*#$&+,/:;=?@[]%"}

// percent escapes every byte of the hexadecimal digits except those in keep.
func percent(digits, keep string) string {
	var out strings.Builder
	for i := 0; i < len(digits); i += 2 {
		if b, err := hex.DecodeString(digits[i : i+2]); err == nil && strings.IndexByte(keep, b[0]) >= 0 {
			out.Write(b)
			continue
		}
		out.WriteString("%" + digits[i:i+2])
	}
	return out.String()
}

// escapes returns s as a JSON string spells it.
func escapes(s string, html bool) string {
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(html)
	if e.Encode(s) != nil {
		return s // can't happen: text always has a JSON form
	}
	return strings.TrimSuffix(out.String(), "\"\n")[1:]
}

// ascii escapes all other characters as JSON does.
func ascii(s string) string {
	var out strings.Builder
	for _, c := range s {
		switch {
		case c < utf8.RuneSelf:
			out.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, c)
		}
	}
	return out.String()
}

// forms are texts to search for, each at least Shortest bytes long.
type forms struct {
	sorted  []string
	joined  string                      // all of them, one after the other
	ends    []int                       // where in joined each of them ends
	first   [256]bool                   // the bytes that a form can begin with
	begin   map[[Shortest]byte][]string // by their first bytes, the longest first
	longest int
	within  []uint64 // bits, set for every Shortest bytes of joined; its length is a power of two
}

func compile(all []string) forms {
	slices.Sort(all)
	forms := forms{sorted: all, joined: strings.Join(all, ""), begin: map[[Shortest]byte][]string{}}
	end := 0
	for _, s := range all {
		end += len(s)
		forms.ends = append(forms.ends, end)
	}
	for _, s := range slices.Backward(all) { // of two that begin alike, the longer one comes first
		forms.first[s[0]] = true
		key := [Shortest]byte([]byte(s[:Shortest]))
		forms.begin[key] = append(forms.begin[key], s)
		forms.longest = max(forms.longest, len(s))
	}
	forms.within = make([]uint64, 1<<bits.Len(uint(end/8))) // at least eight bits for each place
	for i := range max(0, end-Shortest+1) {
		word, bit := forms.bit(forms.joined[i:])
		forms.within[word] |= bit
	}
	return forms
}

// bit returns the bit of within for the first Shortest bytes of s.
func (f *forms) bit(s string) (word int, bit uint64) {
	n := uint64(0)
	for i := range Shortest {
		n = n<<8 | uint64(s[i])
	}
	n = n * 0x9e3779b97f4a7c15 >> 36 // the upper bits depend on all of them
	return int(n >> 6 & uint64(len(f.within)-1)), 1 << (n & 63)
}

// at returns the length of the longest form that s begins with; 0 for none.
func (f *forms) at(s string) int {
	if len(s) < Shortest || !f.first[s[0]] {
		return 0
	}
	longest := 0
	for _, form := range f.begin[[Shortest]byte([]byte(s[:Shortest]))] {
		if len(form) > longest && strings.HasPrefix(s, form) {
			longest = len(form)
		}
	}
	return longest
}

// begins reports whether a form that is longer than s begins with it.
func (f *forms) begins(s string) bool {
	if s == "" || len(s) >= f.longest || !f.first[s[0]] {
		return false
	}
	i, found := slices.BinarySearch(f.sorted, s)
	if found {
		i++
	}
	return i < len(f.sorted) && strings.HasPrefix(f.sorted[i], s)
}

// ended returns the length of the longest end of a form that text begins with, of at least Shortest bytes; 0 for none.
func (f *forms) ended(text string) int {
	longest := 0
	if len(text) < Shortest || len(f.ends) == 0 {
		return 0
	}
	// Most texts don't begin like any form, and there may be many forms.
	if word, bit := f.bit(text); f.within[word]&bit == 0 {
		return 0
	}
	for from := 0; ; from++ {
		i := strings.Index(f.joined[from:], text[:Shortest])
		if i < 0 {
			return longest
		}
		from += i
		at, found := slices.BinarySearch(f.ends, from)
		if found {
			at++
		}
		if rest := f.joined[from:f.ends[at]]; len(rest) >= max(Shortest, longest) && strings.HasPrefix(text, rest) {
			longest = len(rest)
		}
	}
}
