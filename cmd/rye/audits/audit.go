package audits

import (
	"encoding/hex"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/journal"
	"github.com/rye-build/rye/exec/audit/machine"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// AuditGroup is what "rye audit" alone shows.
func AuditGroup() cli.Command {
	return cli.Command{
		Path: "audit", Group: "run", Help: "Inspect and verify the log of calls.",
		Aka: []string{"log", "history", "journal"},
		More: "Each call is written down before it begins, in audit/ of the state directory, and signed by a key of this machine. " +
			"Your own key vouches for the machine's: on its own where it needs no passphrase, else with rye audit vouch. " +
			"Parameters and results aren't kept, only their digests.",
	}
}

// AuditPlaces are the directories of what is kept of calls, in the state directory.
type AuditPlaces struct {
	Log      string // the journals
	Machine  string // the machine's key, and the voucher for it
	Receipts string // of calls that other calls made, by digest
}

func OpenAuditPlaces(a *cli.App) (AuditPlaces, error) {
	s := a.Dir(cli.StatePlace)
	if s.Err != nil {
		return AuditPlaces{}, s.Err
	}
	at := func(name string) string { return filepath.Join(s.Value, name) }
	return AuditPlaces{Log: at("audit"), Machine: at("machine"), Receipts: at("receipts")}, nil
}

// OpenAudit returns the log of this user's calls, and the key and the voucher that receipts are signed with. The key
// is made when it is first needed. The voucher is nil as long as nobody has vouched for it.
func OpenAudit(a *cli.App, required bool) (log *audit.Log, own key.Private, voucher []byte, err error) {
	p, err := OpenAuditPlaces(a)
	if err != nil {
		return nil, key.Private{}, nil, err
	}
	if own, err = machine.Key(p.Machine); err != nil {
		return nil, key.Private{}, nil, err
	}
	if voucher = p.Voucher(own.Public()); voucher == nil {
		voucher = vouchQuietly(a, p, own.Public())
	}
	log, err = audit.Open(audit.Options{Dir: p.Log, Key: own, Voucher: voucher, Required: required,
		Program: "rye " + cli.ThisVersion().Version, Now: a.Now, Wait: osfile.LockWait})
	return log, own, voucher, err
}

const (
	VoucherFile = "voucher.json"
	MaxVoucher  = 16 << 10
)

// Voucher returns what was kept to vouch for a machine, nil if there is nothing that is about it. Whoever reads the log
// or a receipt looks at the signature.
func (p AuditPlaces) Voucher(own key.Public) []byte {
	b, err := osfile.ReadSmall(filepath.Join(p.Machine, VoucherFile), MaxVoucher)
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
func vouchQuietly(a *cli.App, p AuditPlaces, own key.Public) []byte {
	if places.CheckKeyPlaces(a) != nil {
		return nil
	}
	user, err := KeyAtHand(a)
	if err != nil {
		return nil
	}
	b, err := vouch(a, p, own, user, "")
	if err != nil {
		return nil
	}
	return b
}

// KeyAtHand opens the key that signs where none is named without asking anybody for a passphrase.
func KeyAtHand(a *cli.App) (key.Private, error) {
	var passphrase func() (string, error)
	if given := a.Env(cli.EnvPassphrase); given != "" {
		passphrase = func() (string, error) { return given, nil }
	}
	if pem := a.Env(cli.EnvKey); pem != "" {
		return key.ParsePrivate([]byte(pem), passphrase)
	}
	dir, err := places.KeysDir(a)
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
func vouch(a *cli.App, p AuditPlaces, own key.Public, user key.Private, name string) ([]byte, error) {
	if name == "" {
		host, err := os.Hostname()
		if name = host; err != nil || record.CheckText("name", name) != nil {
			name = "machine"
		}
	}
	b, err := machine.Vouch(own, name, user, a.Now())
	if err != nil {
		return nil, err
	}
	return b, osfile.WriteFile(filepath.Join(p.Machine, VoucherFile), 0o600, false, osfile.BytesOf(b))
}

// KeepReceipt keeps the receipt of a call that another call made, whole and durable, where the digest in the other's
// receipt finds it.
func KeepReceipt(a *cli.App, b []byte) (cas.Digest, error) {
	d := cas.Sum(b)
	p, err := OpenAuditPlaces(a)
	if err != nil {
		return d, err
	}
	if err := new(journal.Disk).MakeDirectory(p.Receipts); err != nil {
		return d, err
	}
	return d, osfile.WriteFile(ReceiptPath(p.Receipts, d), 0o600, false, osfile.BytesOf(b))
}

// ReceiptPath is where a directory has the receipt of a digest.
func ReceiptPath(dir string, d cas.Digest) string {
	return filepath.Join(dir, hex.EncodeToString(d[:])+".json")
}
