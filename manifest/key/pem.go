package key

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"strings"
)

// The DER before the 32 bytes. No part of these structures is variable.
const (
	publicDER  = "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"                 // SubjectPublicKeyInfo
	privateDER = "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20" // PKCS#8
)

// maxPEM limits the input. A PEM has 119 bytes, an age file about 500.
const maxPEM = 16 << 10

var base64std = base64.StdEncoding.Strict()

// encodePEM writes a block of one line.
func encodePEM(label, der string) []byte {
	return []byte("-----BEGIN " + label + "-----\n" + base64std.EncodeToString([]byte(der)) + "\n-----END " + label +
		"-----\n")
}

// decodePEM returns the 32 bytes after the given DER in a block with the given label.
func decodePEM(b []byte, label, der string) (raw [32]byte, err error) {
	text := trimPEM(b)
	begin, rest, _ := strings.Cut(text, "\n")
	found, ok := strings.CutPrefix(begin, "-----BEGIN ")
	found, ok2 := strings.CutSuffix(found, "-----")
	switch {
	case !ok || !ok2:
		return raw, invalid("expected PEM that begins with %q", "-----BEGIN "+label+"-----")
	case found != label:
		return raw, invalid("expected PEM of a %s, found %.60q", label, found)
	}
	body, end, _ := strings.Cut(rest, "\n")
	if end != "-----END "+label+"-----" {
		return raw, invalid("expected PEM of one line of base64 and nothing after it")
	}
	got, err := base64std.DecodeString(body)
	// The decoder skips line ends; a CR that isn't part of one is an error.
	if err != nil || strings.ContainsRune(body, '\r') {
		return raw, invalid("PEM does not hold base64")
	}
	if len(got) != len(der)+len(raw) || string(got[:len(der)]) != der {
		return raw, invalid("PEM of a %s holds something other than an Ed25519 key in its plain form", label)
	}
	return [32]byte(got[len(der):]), nil
}

// trimPEM removes the white space that editors and variables add to a PEM.
func trimPEM(b []byte) string {
	if len(b) > maxPEM {
		return ""
	}
	return strings.Trim(string(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))), " \t\r\n")
}

// PEM returns the key as SubjectPublicKeyInfo.
func (p Public) PEM() []byte { return encodePEM("PUBLIC KEY", publicDER+string(p.raw[:])) }

// ParsePublicPEM reads the form that PEM writes.
func ParsePublicPEM(b []byte) (Public, error) {
	raw, err := decodePEM(b, "PUBLIC KEY", publicDER)
	if err != nil {
		return Public{}, err
	}
	return NewPublic(raw[:])
}

// IsPrivate reports whether a file is a private key of a common kind: PEM with a block whose label ends in PRIVATE
// KEY, a key of rye's with a passphrase, or an age identity. It finds keys in the wrong places: text that only
// mentions a key doesn't count.
func IsPrivate(file []byte) bool {
	if len(file) > maxPEM {
		return false
	}
	if IsLocked(file) {
		return true
	}
	for line := range bytes.Lines(file) {
		if bytes.HasPrefix(line, []byte("AGE-SECRET-KEY-1")) {
			return true
		}
	}
	file = bytes.TrimSpace(file) // as ParsePrivatePEM does
	for {
		block, rest := pem.Decode(file)
		if block == nil {
			return false
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return true
		}
		file = rest
	}
}
