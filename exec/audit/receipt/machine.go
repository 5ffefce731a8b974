package receipt

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/jcs"
	"github.com/rye-build/rye/manifest/key"
)

// MachinePredicateType is the predicate type of a voucher.
const MachinePredicateType = "https://github.com/rye-build/rye/machine/v1"

const keyName = "machine"

// MachineKey returns the machine's key from a directory, and creates it if it is missing.
func MachineKey(dir string) (key.Private, error) {
	keys := key.OpenDir(dir)
	p, err := keys.Private(keyName, nil)
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if p, err = key.Generate(rand.Reader); err == nil {
		err = keys.Add(keyName, p, "")
	}
	// If two processes create a key at once, both return the first one.
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return key.Private{}, err
	}
	return keys.Private(keyName, nil)
}

func invalidVoucher(format string, args ...any) error {
	return fault.New(fault.Parsing, "voucher: "+format, args...)
}

// Vouch returns a statement, signed by a user, that a machine signs for them. The name is for display only.
func Vouch(machine key.Public, name string, user key.Private, now time.Time) ([]byte, error) {
	if machine.IsZero() {
		return nil, invalidVoucher("no key given")
	}
	s := attest.Statement{
		Subjects:      []attest.Subject{{Name: name, Digests: digests(machine)}},
		PredicateType: MachinePredicateType,
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
	b, _ := jcs.Append(nil, map[string]any{"at": at.UTC().Format(voucherTimeForm), "key": machine.String()})
	return b
}

const voucherTimeForm = "2006-01-02T15:04:05Z"

func digests(p key.Public) attest.Digests {
	return attest.DigestsOf(cas.Digest(p.Fingerprint()))
}

const voucherFile = "voucher.json"

// maxVoucher bounds a voucher's file.
const maxVoucher = 16 << 10

// Enroll makes a user vouch for a machine, and stores the voucher beside the machine's key. An empty name means the
// host's.
func Enroll(dir string, machine key.Public, name string, user key.Private, now time.Time) ([]byte, error) {
	if name == "" {
		host, err := os.Hostname()
		if name = host; err != nil || record.CheckText("name", name) != nil {
			name = keyName
		}
	}
	b, err := Vouch(machine, name, user, now)
	if err != nil {
		return nil, err
	}
	return b, osfile.WriteFile(filepath.Join(dir, voucherFile), 0o600, false, osfile.BytesOf(b))
}

// Voucher returns the voucher stored for a machine, or nil. It checks no signature: readers of the log and of
// receipts do.
func Voucher(dir string, machine key.Public) []byte {
	data, err := osfile.ReadSmall(filepath.Join(dir, voucherFile), maxVoucher)
	if err != nil {
		return nil
	}
	e, err := attest.ParseEnvelope(data)
	if err != nil {
		return nil
	}
	_, payload := e.Unverified()
	s, err := attest.ParseStatement(payload)
	if err != nil || s.PredicateType != MachinePredicateType || s.About(digests(machine)) != nil {
		return nil
	}
	// The log and receipts contain vouchers in canonical form.
	if data, err = e.Append(nil); err != nil {
		return nil
	}
	return data
}

// CheckVoucher returns the user's key that vouches for a machine. It returns an *attest.SubjectError for another
// machine's voucher, and an *attest.ThresholdError if none of the users signed it.
func CheckVoucher(voucher []byte, machine key.Public, users []key.Public) (key.Public, error) {
	statement, signers, err := attest.VerifyStatement(voucher, users, 1, MachinePredicateType, digests(machine))
	if err != nil {
		return key.Public{}, err
	}
	var predicate struct {
		At  time.Time  `json:"at"`
		Key key.Public `json:"key"`
	}
	if err := json.Unmarshal(statement.Predicate, &predicate); err != nil {
		return key.Public{}, invalidVoucher("invalid predicate: %v", err)
	}
	if !bytes.Equal(predicateOf(predicate.Key, predicate.At), statement.Predicate) {
		return key.Public{}, invalidVoucher("the predicate is not in canonical form")
	}
	if predicate.Key != machine {
		return key.Public{}, invalidVoucher("the key is %s, the subject is %s", predicate.Key, machine)
	}
	return signers[0], nil
}
