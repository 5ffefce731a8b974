// Package passkeytest is an authenticator for tests: it makes passkeys and answers with them as a browser does, with
// real keys and signatures, and lies where a test wants it to.
package passkeytest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
)

// An Authenticator holds passkeys. The zero value with an origin verifies its user.
type Authenticator struct {
	Origin     string // of the page that asks
	Unverified bool   // the user wasn't verified
	Absent     bool   // the user wasn't even there
	Site       string // instead of the site that asks
	Ceremony   string // instead of webauthn.create or webauthn.get
	Counts     bool   // signatures, as hardware does
	Count      uint32
	Handle     []byte // instead of the one that the key was made for

	keys []held
}

type held struct {
	site       string
	id, handle []byte
	key        *ecdsa.PrivateKey
}

var encoding = base64.RawURLEncoding

// Clone returns another authenticator with the same keys and the same count.
func (a *Authenticator) Clone() *Authenticator {
	c := *a
	c.keys = slices.Clone(a.keys)
	return &c
}

// Create makes a passkey as navigator.credentials.create does, and returns its toJSON.
func (a *Authenticator) Create(options []byte) ([]byte, error) {
	var o struct {
		RP                     struct{ ID string }
		User                   struct{ ID string }
		Challenge              string
		AuthenticatorSelection struct{ UserVerification, ResidentKey string }
		ExcludeCredentials     []struct{ ID string }
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, err
	}
	if o.AuthenticatorSelection.UserVerification != "required" || o.AuthenticatorSelection.ResidentKey != "required" {
		return nil, errors.New("the site doesn't ask for a discoverable key and user verification")
	}
	for _, other := range o.ExcludeCredentials {
		if slices.ContainsFunc(a.keys, func(k held) bool { return encoding.EncodeToString(k.id) == other.ID }) {
			return nil, errors.New("this authenticator has a passkey of the account already")
		}
	}
	handle, err := encoding.DecodeString(o.User.ID)
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	k := held{o.RP.ID, make([]byte, 20), handle, key}
	rand.Read(k.id)
	a.keys = append(a.keys, k)
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, err
	}
	cose := slices.Concat([]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, point[1:33], []byte{0x22, 0x58, 32},
		point[33:])
	data := slices.Concat(a.head(o.RP.ID, 0x40), make([]byte, 16), []byte{0, byte(len(k.id))}, k.id, cose)
	object := slices.Concat([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59"),
		binary.BigEndian.AppendUint16(nil, uint16(len(data))), data)
	return a.answer(k.id, map[string]any{"clientDataJSON": a.client("webauthn.create", o.Challenge),
		"attestationObject": encoding.EncodeToString(object), "transports": []string{"internal"}})
}

// Get answers with a passkey as navigator.credentials.get does, and returns its toJSON.
func (a *Authenticator) Get(options []byte) ([]byte, error) {
	var o struct {
		RPID, Challenge, UserVerification string
		AllowCredentials                  []struct{ ID string }
	}
	if err := json.Unmarshal(options, &o); err != nil {
		return nil, err
	}
	if o.UserVerification != "required" {
		return nil, errors.New("the site doesn't ask for user verification")
	}
	i := slices.IndexFunc(a.keys, func(k held) bool {
		if k.site != o.RPID {
			return false
		}
		for _, allowed := range o.AllowCredentials {
			if allowed.ID == encoding.EncodeToString(k.id) {
				return true
			}
		}
		return len(o.AllowCredentials) == 0
	})
	if i < 0 {
		return nil, errors.New("this authenticator has no passkey that may answer")
	}
	k := a.keys[i]
	data := a.head(o.RPID, 0)
	client := a.client("webauthn.get", o.Challenge)
	raw, err := encoding.DecodeString(client)
	if err != nil {
		return nil, err
	}
	inner := sha256.Sum256(raw)
	digest := sha256.Sum256(append(bytes.Clone(data), inner[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, k.key, digest[:])
	if err != nil {
		return nil, err
	}
	handle := k.handle
	if a.Handle != nil {
		handle = a.Handle
	}
	return a.answer(k.id, map[string]any{"clientDataJSON": client, "authenticatorData": encoding.EncodeToString(data),
		"signature": encoding.EncodeToString(signature), "userHandle": encoding.EncodeToString(handle)})
}

// head returns the authenticator data before what belongs to a new key.
func (a *Authenticator) head(site string, flags byte) []byte {
	if a.Site != "" {
		site = a.Site
	}
	if !a.Absent {
		flags |= 1
	}
	if !a.Unverified {
		flags |= 4
	}
	if a.Counts {
		a.Count++
	}
	digest := sha256.Sum256([]byte(site))
	return binary.BigEndian.AppendUint32(append(digest[:], flags), a.Count)
}

func (a *Authenticator) client(ceremony, challenge string) string {
	if a.Ceremony != "" {
		ceremony = a.Ceremony
	}
	b, _ := json.Marshal(map[string]any{"type": ceremony, "challenge": challenge, "origin": a.Origin,
		"crossOrigin": false})
	return encoding.EncodeToString(b)
}

func (a *Authenticator) answer(id []byte, response map[string]any) ([]byte, error) {
	name := encoding.EncodeToString(id)
	return json.Marshal(map[string]any{"id": name, "rawId": name, "type": "public-key",
		"authenticatorAttachment": "platform", "clientExtensionResults": struct{}{}, "response": response})
}
