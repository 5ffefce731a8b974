// Package passkey makes and verifies passkeys (WebAuthn) for one site. It keeps nothing: its caller chooses the
// challenge, sees that one counts once and for a short time, and keeps the keys.
//
//	site, err := passkey.New("registry.example", "https://registry.example")
//	options, err := site.CreateOptions(user, challenge, nil)   // for navigator.credentials.create, as JSON
//	key, err := site.Created(user, challenge, answer)          // what toJSON of the credential gave
//	options, err = site.GetOptions(challenge, nil)             // for navigator.credentials.get
//	key, err = site.Got(challenge, answer, find)
//
// A passkey must be discoverable, so that a person types no name to sign in, and each of its answers must say that
// the authenticator has verified the person (PIN, finger, face). Attestation is not asked for: which device a person
// uses is their choice.
//
// How an answer goes through here: go-webauthn parses it, compares challenge, origin, the site's id and the flags, and
// verifies the signature. Got then compares the signature counter with the one that was kept: one that didn't grow
// means that the key may exist twice, and the answer doesn't count.
package passkey

import (
	"encoding/json"
	"errors"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/rye-build/rye/cas/fault"
)

// A Site is what passkeys belong to: a host and the one origin of its pages.
type Site struct{ party *webauthn.WebAuthn }

// MaxAnswer is the most bytes of an authenticator's answer.
const MaxAnswer = 32 << 10

// A User is an account as authenticators keep it.
type User struct {
	Handle []byte // at most 64 bytes that identify the account
	Name   string
}

// A Key is the public half of a passkey, as it is kept.
type Key struct {
	ID         []byte   `json:"id"`
	Public     []byte   `json:"public"` // a COSE key
	Count      uint32   `json:"count,omitempty"`
	Synced     bool     `json:"synced,omitempty"` // the authenticator may copy it to other devices
	BackedUp   bool     `json:"backed_up,omitempty"`
	Transports []string `json:"transports,omitempty"`
}

// ErrCloned means that the counter of a passkey did not grow, so another device may have a copy of it.
var ErrCloned = errors.New("the passkey's counter did not grow: there may be a copy of it")

// New returns the site with a host and the origin of its pages.
func New(host, origin string) (*Site, error) {
	required := true
	party, err := webauthn.New(&webauthn.Config{RPID: host, RPDisplayName: host, RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{RequireResidentKey: &required,
			ResidentKey:      protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired}})
	if err != nil {
		return nil, fault.New(fault.Config, "%q can't have passkeys: %v", host, err).From(err)
	}
	return &Site{party}, nil
}

// CreateOptions returns what navigator.credentials.create gets. No device that has one of the keys makes another.
func (s *Site) CreateOptions(u User, challenge []byte, have []*Key) ([]byte, error) {
	creation, _, err := s.party.BeginRegistration(account{User: u},
		webauthn.WithCredentialParameters(webauthn.CredentialParametersRecommendedL3()),
		webauthn.WithExclusions(descriptors(have)),
		func(o *protocol.PublicKeyCredentialCreationOptions) error {
			o.Challenge = challenge
			return nil
		})
	if err != nil {
		return nil, err
	}
	return json.Marshal(creation.Response)
}

// Created verifies the answer to CreateOptions, and returns the new key.
func (s *Site) Created(u User, challenge, answer []byte) (*Key, error) {
	if len(answer) > MaxAnswer {
		return nil, refused(errTooLong)
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes(answer)
	if err != nil {
		return nil, refused(err)
	}
	made, err := s.party.CreateCredential(account{User: u}, webauthn.SessionData{UserID: u.Handle,
		Challenge:        protocol.URLEncodedBase64(challenge).String(),
		UserVerification: protocol.VerificationRequired,
		CredParams:       webauthn.CredentialParametersRecommendedL3()}, parsed)
	if err != nil {
		return nil, refused(err)
	}
	k := &Key{ID: made.ID, Public: made.PublicKey, Count: made.Authenticator.SignCount,
		Synced: made.Flags.BackupEligible, BackedUp: made.Flags.BackupState}
	for _, transport := range made.Transport {
		k.Transports = append(k.Transports, fault.Clip(string(transport), 20))
	}
	return k, nil
}

// GetOptions returns what navigator.credentials.get gets. Without keys any passkey of the site may answer.
func (s *Site) GetOptions(challenge []byte, keys []*Key) ([]byte, error) {
	options := []webauthn.LoginOption{webauthn.WithChallenge(challenge)}
	if len(keys) > 0 {
		options = append(options, webauthn.WithAllowedCredentials(descriptors(keys)))
	}
	assertion, _, err := s.party.BeginDiscoverableLogin(options...)
	if err != nil {
		return nil, err
	}
	return json.Marshal(assertion.Response)
}

// Got verifies the answer to GetOptions, and returns the key as it is to be kept from now on. find returns the key
// with an id and its user's handle. With ErrCloned the key is returned, too.
func (s *Site) Got(challenge, answer []byte, find func(id []byte) (k *Key, handle []byte, err error)) (*Key, error) {
	if len(answer) > MaxAnswer {
		return nil, refused(errTooLong)
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes(answer)
	if err != nil {
		return nil, refused(err)
	}
	var known *Key
	var failed error
	used, err := s.party.ValidateDiscoverableLogin(func(id, _ []byte) (webauthn.User, error) {
		k, handle, err := find(id)
		if err != nil {
			failed = err
			return nil, err
		}
		known = k
		// ValidateDiscoverableLogin compares the handle with the one that the authenticator has answered.
		return account{User{Handle: handle}, k}, nil
	}, webauthn.SessionData{Challenge: protocol.URLEncodedBase64(challenge).String(),
		UserVerification: protocol.VerificationRequired}, parsed)
	switch {
	case failed != nil:
		return nil, failed
	case err != nil:
		return nil, refused(err)
	case used.Authenticator.CloneWarning:
		return known, ErrCloned
	}
	now := *known
	now.Count, now.BackedUp = used.Authenticator.SignCount, used.Flags.BackupState
	return &now, nil
}

var errTooLong = errors.New("it is too long")

// refused returns the error for an answer that doesn't count. It names no challenge.
func refused(err error) error {
	return fault.New(fault.AuthFailed, "the passkey's answer was not accepted").From(err).
		Because(fault.Clip(err.Error(), 200))
}

// An account is a user with at most one key, as go-webauthn wants it.
type account struct {
	User
	key *Key
}

func (a account) WebAuthnID() []byte          { return a.Handle }
func (a account) WebAuthnName() string        { return a.Name }
func (a account) WebAuthnDisplayName() string { return a.Name }

func (a account) WebAuthnCredentials() []webauthn.Credential {
	if a.key == nil {
		return nil
	}
	return []webauthn.Credential{{ID: a.key.ID, PublicKey: a.key.Public,
		Flags:         webauthn.CredentialFlags{BackupEligible: a.key.Synced, BackupState: a.key.BackedUp},
		Authenticator: webauthn.Authenticator{SignCount: a.key.Count}}}
}

func descriptors(keys []*Key) []protocol.CredentialDescriptor {
	all := make([]protocol.CredentialDescriptor, len(keys))
	for i, k := range keys {
		all[i] = protocol.CredentialDescriptor{Type: protocol.PublicKeyCredentialType, CredentialID: k.ID}
		for _, transport := range k.Transports {
			all[i].Transport = append(all[i].Transport, protocol.AuthenticatorTransport(transport))
		}
	}
	return all
}
