// Package machine answers: which key is this machine's, and who vouches for it?
//
// Checkpoints of the audit log and receipts are made while nobody is there to give a passphrase. So each machine has,
// for each user, a key without one, in a directory of its own (package key) under the name "machine". It is named in
// no policy, and what it signs counts as far as somebody vouches for it: a user's key signs a statement about it once,
//
//	{
//	  "_type": "https://in-toto.io/Statement/v1",
//	  "subject": [{"name": "build-7", "digest": {"blake3": "6c31…"}}],
//	  "predicateType": "https://github.com/rye-build/rye/machine/v1",
//	  "predicate": {"at": "2026-11-20T12:00:00Z", "key": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
//	}
//
// in a DSSE envelope (package attest): the voucher, which travels in every receipt and in the log. The subject's
// digest is the key's fingerprint, its name is what people call the machine. Who holds the user's public key, or the
// machine's, can check what the machine signed, with nothing else.
package machine

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"

	"io/fs"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// PredicateType is what a voucher is called.
const PredicateType = "https://github.com/rye-build/rye/machine/v1"

const keyName = "machine"

// Key returns the machine's key from a directory, and makes it there if there is none.
func Key(dir string) (key.Private, error) {
	d := key.OpenDir(dir)
	p, err := d.Private(keyName, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if p, err = key.Generate(rand.Reader); err == nil {
		err = d.Add(keyName, p, "")
	}
	// Of two processes that come here at once, both take the key of the first.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return key.Private{}, err
	}
	return d.Private(keyName, nil)
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Parsing, "voucher: "+format, args...)
}

// Vouch returns a statement, signed by a user, that a machine signs for them. The name is only shown to people.
func Vouch(machine key.Public, name string, user key.Private, now time.Time) ([]byte, error) {
	if machine.IsZero() {
		return nil, invalid("no key given")
	}
	s := attest.Statement{
		Subjects:      []attest.Subject{{Name: name, Digests: digests(machine)}},
		PredicateType: PredicateType,
		Predicate:     predicateOf(machine, now),
	}
	payload, err := s.Append(nil)
	if err != nil {
		return nil, err
	}
	e, err := attest.NewEnvelope(attest.StatementPayload, payload)
	if err != nil {
		return nil, err
	}
	if err := e.Sign(user); err != nil {
		return nil, err
	}
	return e.Append(nil)
}

func predicateOf(machine key.Public, at time.Time) []byte {
	b, _ := jcs.Append(nil, map[string]any{"at": at.UTC().Format(timeForm), "key": machine.String()})
	return b
}

const timeForm = "2006-01-02T15:04:05Z"

func digests(p key.Public) attest.Digests {
	return attest.DigestsOf(cas.Digest(p.Fingerprint()))
}

// Check returns which of the users' keys vouches for a machine. A voucher for another machine is a
// *attest.SubjectError, one that none of them signed a *attest.ThresholdError.
func Check(voucher []byte, machine key.Public, users []key.Public) (key.Public, error) {
	s, signers, err := attest.VerifyStatement(voucher, users, 1, PredicateType, digests(machine))
	if err != nil {
		return key.Public{}, err
	}
	var p struct {
		At  time.Time  `json:"at"`
		Key key.Public `json:"key"`
	}
	if err := json.Unmarshal(s.Predicate, &p); err != nil {
		return key.Public{}, invalid("invalid predicate: %v", err)
	}
	if !bytes.Equal(predicateOf(p.Key, p.At), s.Predicate) {
		return key.Public{}, invalid("the predicate is not in canonical form")
	}
	if p.Key != machine {
		return key.Public{}, invalid("the key is %s, the subject is %s", p.Key, machine)
	}
	return signers[0], nil
}
