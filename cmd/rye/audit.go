package main

import (
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// auditGroup is what "rye audit" alone shows.
func auditGroup() command {
	return command{
		path: "audit", group: "run", help: "See what was run, and whether that is still what was written down.",
		aka: []string{"log", "history", "journal"},
		more: "Each call is written down before it begins, in audit/ of the state directory, and signed by a key of this machine. " +
			"Your own key vouches for the machine's: on its own where it needs no passphrase, else with rye audit vouch. " +
			"Parameters and results aren't kept, only their digests.",
	}
}

// auditPlaces are the directories of what is kept of calls, in the state directory.
type auditPlaces struct {
	log      string // the journals
	machine  string // the machine's key, and the voucher for it
	receipts string // of calls that other calls made, by digest
}

func (a *app) auditPlaces() (auditPlaces, error) {
	s := a.dir(statePlace)
	if s.err != nil {
		return auditPlaces{}, s.err
	}
	at := func(name string) string { return filepath.Join(s.value, name) }
	return auditPlaces{log: at("audit"), machine: at("machine"), receipts: at("receipts")}, nil
}

// openAudit returns the log of this user's calls, and the key and the voucher that receipts are signed with. The key
// is made when it is first needed. The voucher is nil as long as nobody has vouched for it.
func (a *app) openAudit(required bool) (log *audit.Log, own key.Private, voucher []byte, err error) {
	p, err := a.auditPlaces()
	if err != nil {
		return nil, key.Private{}, nil, err
	}
	if own, err = machine.Key(p.machine); err != nil {
		return nil, key.Private{}, nil, err
	}
	if voucher = p.voucher(own.Public()); voucher == nil {
		voucher = a.vouchQuietly(p, own.Public())
	}
	log, err = audit.Open(audit.Options{Dir: p.log, Key: own, Voucher: voucher, Required: required,
		Program: "rye " + thisVersion().Version, Now: a.now, Wait: lockWait})
	return log, own, voucher, err
}

const (
	voucherFile = "voucher.json"
	maxVoucher  = 16 << 10
)

// voucher returns what was kept to vouch for a machine, nil if there is nothing that is about it. Whoever reads the log
// or a receipt looks at the signature.
func (p auditPlaces) voucher(own key.Public) []byte {
	b, err := readSmall(filepath.Join(p.machine, voucherFile), maxVoucher)
	if err != nil {
		return nil
	}
	e, err := attest.ParseEnvelope(b)
	if err != nil {
		return nil
	}
	_, payload := e.Unverified()
	s, err := attest.ParseStatement(payload)
	if err != nil || s.PredicateType != machine.PredicateType || s.About(attest.DigestsOf(cas.Digest(own.Fingerprint()))) != nil {
		return nil
	}
	// As the log and receipts have it: they hold vouchers in their canonical form.
	if b, err = e.Append(nil); err != nil {
		return nil
	}
	return b
}

// vouchQuietly has the user's key vouch for the machine's if nobody need be asked for that. Whatever is in the way
// is said by "rye audit vouch": a call goes on without.
func (a *app) vouchQuietly(p auditPlaces, own key.Public) []byte {
	if a.checkKeyPlaces() != nil {
		return nil
	}
	user, err := a.keyAtHand()
	if err != nil {
		return nil
	}
	b, err := a.vouch(p, own, user, "")
	if err != nil {
		return nil
	}
	return b
}

// keyAtHand opens the key that signs where none is named without asking anybody for a passphrase.
func (a *app) keyAtHand() (key.Private, error) {
	var passphrase func() (string, error)
	if given := a.env(envPassphrase); given != "" {
		passphrase = func() (string, error) { return given, nil }
	}
	if pem := a.env(envKey); pem != "" {
		return key.ParsePrivate([]byte(pem), passphrase)
	}
	dir, err := a.keysDir()
	if err != nil {
		return key.Private{}, err
	}
	name, err := dir.Default()
	if err != nil {
		return key.Private{}, err
	}
	return dir.Private(name, passphrase)
}

// vouch keeps a user's word for the machine, which gets the host's name unless it is given another.
func (a *app) vouch(p auditPlaces, own key.Public, user key.Private, name string) ([]byte, error) {
	if name == "" {
		host, err := os.Hostname()
		if name = host; err != nil || record.CheckText("name", name) != nil {
			name = "machine"
		}
	}
	b, err := machine.Vouch(own, name, user, a.now())
	if err != nil {
		return nil, err
	}
	return b, writeFile(filepath.Join(p.machine, voucherFile), 0o600, false, bytesOf(b))
}

// keepReceipt keeps the receipt of a call that another call made, whole and durable, where the digest in the other's
// receipt finds it.
func (a *app) keepReceipt(b []byte) (cas.Digest, error) {
	d := cas.Sum(b)
	p, err := a.auditPlaces()
	if err != nil {
		return d, err
	}
	if err := new(journal.Disk).MakeDirectory(p.receipts); err != nil {
		return d, err
	}
	return d, writeFile(receiptPath(p.receipts, d), 0o600, false, bytesOf(b))
}

// receiptPath is where a directory has the receipt of a digest.
func receiptPath(dir string, d cas.Digest) string {
	return filepath.Join(dir, hex.EncodeToString(d[:])+".json")
}
