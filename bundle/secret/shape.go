package secret

import (
	"bytes"
	"encoding/base64"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A set is a set of character classes.
type set uint8

const (
	lower set = 1 << iota
	upper
	digit
	dash
	under
	dot
)

const (
	base62  = lower | upper | digit
	base64u = base62 | dash | under
	hexa    = lower | digit
)

func setOf(char byte) set {
	switch {
	case 'a' <= char && char <= 'z':
		return lower
	case 'A' <= char && char <= 'Z':
		return upper
	case '0' <= char && char <= '9':
		return digit
	case char == '-':
		return dash
	case char == '_':
		return under
	case char == '.':
		return dot
	}
	return 0
}

// A rule is a kind of token with a known prefix. least and most bound the length after it.
type rule struct {
	name, prefix string
	set          set
	least, most  int
}

// rules has at most 29 entries, one bit each.
var rules = [...]rule{
	{"aws", "AKIA", upper | digit, 16, 16},
	{"aws", "ASIA", upper | digit, 16, 16},
	{"github", "ghp_", base62, 36, 255},
	{"github", "gho_", base62, 36, 255},
	{"github", "ghu_", base62, 36, 255},
	{"github", "ghs_", base62, 36, 255},
	{"github", "ghr_", base62, 36, 255},
	{"github", "github_pat_", base62 | under, 60, 255},
	{"gitlab", "glpat-", base64u, 20, 255},
	{"slack", "xox", base62 | dash, 24, 255},
	{"anthropic", "sk-ant-", base64u, 40, 255},
	{"openai", "sk-", base64u, 32, 255},
	{"stripe", "sk_live_", base62, 16, 255},
	{"stripe", "rk_live_", base62, 16, 255},
	{"stripe", "whsec_", base62, 32, 64},
	{"google", "AIza", base64u, 35, 35},
	{"google", "GOCSPX-", base64u, 28, 28},
	{"google", "ya29.", base64u, 40, 400},
	{"npm", "npm_", base62, 36, 36},
	{"pypi", "pypi-AgEI", base64u, 50, 400},
	{"huggingface", "hf_", lower | upper, 34, 40},
	{"sendgrid", "SG.", base64u | dot, 60, 80},
	{"digitalocean", "dop_v1_", hexa, 64, 64},
	{"databricks", "dapi", hexa, 32, 32},
	{"docker", "dckr_pat_", base64u, 27, 64},
	{"age", "AGE-SECRET-KEY-1", upper | digit, 58, 58},
	{"jwt", "eyJ", base64u, 10, 300},
	{pemRule, "LS0tLS1CRUdJTiB", base62, 40, 0}, // base64 of a file that begins with "-----BEGIN A" to "…Z"
	{pemRule, "PuTTY-User-Key-", digit, 1, 1},
}

// pemRule is the name for private keys in any format.
const pemRule = "private-key"

// match reports whether data begins with a token of the rule. The caller has checked the boundary before data.
func (r *rule) match(data []byte) bool {
	if r.name == pemRule {
		data = data[:min(len(data), reach)]
		return r.set == digit && bytes.Contains(data, []byte("\nPrivate-Lines: ")) || r.set != digit &&
			encodedKey(data)
	}
	data = data[len(r.prefix):]
	n := 0
	for n < len(data) && n <= r.most && setOf(data[n])&r.set != 0 {
		n++
	}
	if n < r.least || n > r.most || n < len(data) && setOf(data[n])&base62 != 0 {
		return false
	}
	token := data[:n]
	switch r.name {
	case "aws":
		return !bytes.HasSuffix(token, []byte("EXAMPLE")) && mixed(token, 2.5)
	case "openai":
		return count(token, digit) >= 3 && count(token, upper|lower) >= 3 && mixed(token, 3.5)
	case "slack":
		return count(token, digit) >= 5 && mixed(token, 3)
	case "jwt":
		// The part after the header may be long: its beginning is enough.
		rest, ok := bytes.CutPrefix(data[n:], []byte(".eyJ"))
		rest = rest[:min(len(rest), 40)]
		return ok && count(rest, base64u) >= 20 && mixed(token, 3) && mixed(rest, 3.5)
	case "sendgrid":
		return bytes.IndexByte(token, '.') == 22 && mixed(token, 3.5)
	}
	return mixed(token, 3)
}

// mixed reports whether a text looks random: it has this many bits of entropy per character, and no runs as in
// examples.
func mixed(data []byte, bits float64) bool {
	var counts [256]int
	up, same := 1, 1
	for i, c := range data {
		counts[c]++
		if i == 0 {
			continue
		}
		if data[i-1]+1 == c {
			up++
		} else {
			up = 1
		}
		if data[i-1] == c {
			same++
		} else {
			same = 1
		}
		if up >= 8 || same >= 6 {
			return false
		}
	}
	h := 0.0
	for _, n := range counts {
		if n > 0 {
			p := float64(n) / float64(len(data))
			h -= p * math.Log2(p)
		}
	}
	return h >= bits
}

func count(b []byte, of set) (n int) {
	for _, c := range b {
		if setOf(c)&of != 0 {
			n++
		}
	}
	return n
}

// privateKey reports whether a PEM private key begins at b.
func privateKey(b []byte) bool {
	const begin, end = "-----BEGIN ", "PRIVATE KEY"
	if !bytes.HasPrefix(b, []byte(begin)) {
		return false
	}
	b = b[:min(len(b), reach)]
	label, rest, ok := bytes.Cut(b[len(begin):], []byte("-----"))
	if label = bytes.TrimSuffix(label, []byte(" BLOCK")); !ok || len(label) > 40 ||
		!bytes.HasSuffix(label, []byte(end)) {
		return false
	}
	// Every program that reads keys contains the header alone. PEM headers may precede the base64.
	run := 0
	for _, c := range rest {
		if setOf(c)&base62 == 0 && c != '+' && c != '/' && c != '=' {
			run = 0
			continue
		}
		if run++; run == 40 {
			return true
		}
	}
	return false
}

// encodedKey reports whether b begins with the base64 of a PEM private key, as in Kubernetes and CI systems.
func encodedKey(b []byte) bool {
	text := make([]byte, 0, 512)
	for _, c := range b {
		if setOf(c)&base62 != 0 || c == '+' || c == '/' {
			text = append(text, c)
		} else if c != '\n' && c != '\r' && c != ' ' {
			break
		}
		if len(text) == cap(text) {
			break
		}
	}
	pem := make([]byte, base64.RawStdEncoding.DecodedLen(len(text)))
	n, _ := base64.RawStdEncoding.Decode(pem, text[:len(text)&^3])
	return privateKey(pem[:n])
}

// derKey reports whether a file with this beginning is a private key in DER. The sequence begins with the version
// of PKCS #8 and an algorithm, the version of SEC 1 and the key's octets, or the version of PKCS #1 and a large
// number. PKCS #8 with a passphrase counts, too.
func derKey(b []byte) bool {
	inner, ok := sequence(b)
	if !ok {
		return false
	}
	if at, ok := bytes.CutPrefix(inner, []byte{2, 1}); ok && len(at) > 3 && at[0] <= 1 {
		_, algorithm := sequence(at[1:])
		return algorithm || at[0] == 1 && at[1] == 4 || at[0] == 0 && at[1] == 2 && at[2] > 0x80
	}
	algorithm, ok := sequence(inner)
	return ok && bytes.HasPrefix(algorithm, []byte("\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05"))
}

// sequence returns the content of a DER sequence, or its beginning.
func sequence(b []byte) ([]byte, bool) {
	if len(b) < 12 || b[0] != 0x30 {
		return nil, false
	}
	switch b[1] {
	case 0x81:
		return b[3:], true
	case 0x82:
		return b[4:], true
	}
	return b[2:], b[1] < 0x80
}

// jwkKey reports whether the value of the member "d" at b[i] is the private half of a JSON web key.
func jwkKey(b []byte, i int, value []byte) bool {
	near := b[max(0, i-reach):min(len(b), i+reach)]
	return len(value) >= 40 && count(value, base64u) == len(value) && mixed(value, 3.5) &&
		bytes.Contains(near, []byte(`"kty"`))
}

// urlPassword reports whether "://user:password@" is at data.
func urlPassword(data []byte) bool {
	data = data[len("://"):]
	if bytes.IndexByte(data[:min(len(data), 300)], '@') < 0 { // the fastest check
		return false
	}
	end := bytes.IndexAny(data[:min(len(data), 300)], " \t\r\n\"'`<>/\\?#,;()[]")
	if end >= 0 {
		data = data[:end]
	}
	at := bytes.LastIndexByte(data[:min(len(data), 300)], '@')
	if at < 0 {
		return false
	}
	user, password, ok := bytes.Cut(data[:at], []byte(":"))
	return ok && len(user) > 0 && isPassword(password) && isText(data[:at])
}

// isText reports whether a part of a file is text. A compressed file has "://", ":" and "@" here and there.
func isText(data []byte) bool {
	return utf8.Valid(data) && bytes.IndexFunc(data, unicode.IsControl) < 0
}

// endings are the ends of the names of secrets, without "-", "_" and "."; those of passwords come first.
var endings = [...]string{"password", "passwd", "passphrase", "pwd",
	"secret", "secretkey", "token", "apikey", "accesskey", "authkey", "privatekey", "clientkeydata", "credential",
	"credentials"}

const passwords = 4

// assigned reports whether the "=" or ":" at data[i] assigns a secret to a name, and returns the name. Without quotes,
// the file must be a configuration file.
func assigned(data []byte, i int, settings bool) (name []byte, at int, ok bool) {
	// The fastest checks come first: most names end otherwise, and most values have no quotes.
	end := nameEnd(data, i)
	if !mayEnd(data[:end]) {
		return nil, 0, false
	}
	raw := valueAfter(data, i+1, settings)
	if len(raw) < leastSecret {
		return nil, 0, false
	}
	at = nameStart(data, end)
	name = data[at:end]
	if len(name) == 1 && name[0] == 'd' && jwkKey(data, i, valueAfter(data, i+1, false)) {
		return name, at, true
	}
	var flat [behind]byte
	n := 0
	for _, c := range name {
		if setOf(c)&(base62) != 0 {
			flat[n] = c | 0x20 // a lower-case letter; digits stay
			n++
		}
	}
	for e, ending := range endings {
		if !bytes.HasSuffix(flat[:n], []byte(ending)) {
			continue
		}
		if e < passwords && isPassword(raw) || e >= passwords && isToken(raw) {
			return name, at, true
		}
	}
	return nil, 0, false
}

// mayEnd reports whether b may end with one of endings or with the name "d", by its last two bytes.
func mayEnd(b []byte) bool {
	if len(b) == 0 {
		return false
	}
	last, before := b[len(b)-1]|0x20, byte(0)
	if len(b) > 1 {
		before = b[len(b)-2]
	}
	switch of := setOf(before); {
	case of == 0:
		return last == 'd'
	case of&base62 == 0: // punctuation in the name
		return strings.IndexByte("adelnsty", last) >= 0
	}
	switch before |= 0x20; last {
	case 'a':
		return before == 't'
	case 'd':
		return before == 'r' || before == 'w'
	case 'e':
		return before == 's'
	case 'l':
		return before == 'a'
	case 'n', 't', 'y':
		return before == 'e'
	case 's':
		return before == 'l'
	}
	return false
}

// nameEnd returns the end of the name before an assignment.
func nameEnd(b []byte, i int) int {
	end := i
	for end > 0 && i-end < 8 {
		switch b[end-1] {
		case ' ', '\t', '"', '\'', ']', ':':
			end--
		default:
			return end
		}
	}
	return end
}

// nameStart returns the beginning of the name that ends at end.
func nameStart(b []byte, end int) int {
	from := end
	for from > 0 && end-from < behind-16 && setOf(b[from-1]) != 0 {
		from--
	}
	return from
}

// valueAfter returns the assigned value.
func valueAfter(data []byte, i int, settings bool) []byte {
	data = data[i:min(len(data), i+reach)]
	if len(data) > 0 && data[0] == '=' { // a comparison, or the ":" of ":=", whose "=" follows
		return nil
	}
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte(">")), " \t")
	if len(data) == 0 {
		return nil
	}
	if q := data[0]; q == '"' || q == '\'' || q == '`' {
		end := bytes.IndexByte(data[1:], q)
		if end < 0 || bytes.IndexByte(data[1:1+end], '\n') >= 0 {
			return nil
		}
		return data[1 : 1+end]
	}
	if !settings {
		return nil
	}
	if end := bytes.IndexAny(data, " \t\r\n,;}"); end >= 0 {
		return data[:end]
	}
	return data
}

// leastSecret is the length of the shortest value that may be a secret.
const leastSecret = 8

// isPassword reports whether a text may be a real password.
func isPassword(data []byte) bool {
	if len(data) < leastSecret || len(data) > 200 || isExample(data) {
		return false
	}
	classes := 0
	for _, s := range []set{lower, upper, digit} {
		if count(data, s) > 0 {
			classes++
		}
	}
	if count(data, base62) < len(data) {
		classes++
	}
	return classes >= 3 && mixed(data, 2.7)
}

// isToken reports whether a text may be a randomly drawn key.
func isToken(v []byte) bool {
	if len(v) < 16 || len(v) > 400 || isExample(v) {
		return false
	}
	bits := 3.5
	if count(v, hexa|upper) == len(v) && count(v, upper|lower) > 0 && len(v) >= 32 {
		bits = 3 // hexadecimal digits have at most 4
	}
	return count(v, digit) >= 2 && count(v, lower|upper) >= 2 && mixed(v, bits)
}

// isExample reports whether a value is marked as an example, or isn't a single word.
func isExample(v []byte) bool {
	if bytes.ContainsAny(v, " \t\r\n<>{}()[]$%\\`\"'|") {
		return true
	}
	text := strings.ToLower(string(v))
	for _, word := range []string{"example", "changeme", "change-me", "placeholder", "your", "xxxx", "dummy", "fake",
		"sample", "insert", "replace",
		"redacted", "todo", "://", "****", "...", "secret", "password", "token"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
