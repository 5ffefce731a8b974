package audits

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/exec/audit"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

type auditVerifyRun struct {
	Receipt  []string `arg:"" optional:"" complete:"file" help:"Receipts; default: the log."`
	Seen     []string `placeholder:"POSITION" sep:"none" complete:"file" help:"Position, or file holding one, that the log must contain (repeatable)."`
	Key      []string `placeholder:"PUBKEY" sep:"none" complete:"file" help:"Trust this key (public key, PEM file or name; repeatable)."`
	Receipts string   `placeholder:"DIR" complete:"dir" help:"Directory of nested calls' receipts; default: this machine's."`
}

// auditVerified is what was verified: the log, or receipts.
type auditVerified struct {
	Keys     []AuditKeyLine `json:"keys"` // whose word counts
	Log      *auditReport   `json:"log,omitempty"`
	Receipts []receiptLine  `json:"receipts"`
}

type AuditKeyLine struct {
	Key         key.Public `json:"key"`
	Fingerprint string     `json:"fingerprint"`
	Name        string     `json:"name"` // that it has here; empty if it has none
}

type auditReport struct {
	Dir  string            `json:"dir"`
	Seen []record.Position `json:"seen"` // what had to be there
	audit.Report
}

// AuditKeys are the keys whose word counts: those that are given, else this user's and this machine's.
func AuditKeys(ctx context.Context, a *cli.App, p session.AuditDirs, given []string) (lines []AuditKeyLine,
	err error) {
	add := func(k key.Public, name string) {
		for _, l := range lines {
			if l.Key == k {
				return
			}
		}
		if !k.IsZero() {
			lines = append(lines, AuditKeyLine{k, k.Fingerprint().String(), name})
		}
	}
	for _, arg := range given {
		k, err := spaces.SignerKey(ctx, a, arg)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.NotFound, "--key is %q, which is neither a file nor a key that is kept here",
				arg).From(err).Try("rye key list")
		}
		if err != nil {
			return nil, err
		}
		if arg == k.String() {
			arg = ""
		}
		add(k, arg)
	}
	if len(given) > 0 {
		return lines, nil
	}
	if dir, err := paths.KeysDir(a); err == nil {
		kept, err := dir.List()
		if err != nil {
			return nil, err
		}
		for _, e := range kept {
			add(e.Public, e.Name)
		}
	}
	if a.Env(cli.EnvKey) != "" {
		if k, err := paths.Keys(a).Open(); err == nil {
			add(k.Public(), cli.EnvKey)
		}
	}
	kept, err := key.OpenDir(p.Machine).List()
	for _, e := range kept {
		add(e.Public, "this machine")
	}
	return lines, err
}

func PublicKeys(lines []AuditKeyLine) (keys []key.Public) {
	for _, l := range lines {
		keys = append(keys, l.Key)
	}
	return keys
}

func (c *auditVerifyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if len(c.Receipt) > 0 && len(c.Seen) > 0 {
		return nil, fault.New(fault.Validation,
			"--seen is about the log, and receipts are given, which are verified without it").
			Try("rye audit verify "+fault.Quote(c.Receipt[0]), "rye audit verify --seen "+fault.Quote(c.Receipt[0]))
	}
	p, err := Dirs(a)
	if err != nil && (len(c.Receipt) == 0 || len(c.Key) == 0) {
		return nil, err // a receipt and a key need no place
	}
	ans := &auditVerified{Receipts: []receiptLine{}}
	if ans.Keys, err = AuditKeys(ctx, a, p, c.Key); err != nil {
		return nil, err
	}
	if len(c.Receipt) > 0 {
		return ans, ans.verifyReceipts(ctx, a, p, c)
	}
	ans.Log = &auditReport{Dir: p.Log, Seen: []record.Position{}}
	for _, arg := range c.Seen {
		at, err := seenPosition(a, arg, PublicKeys(ans.Keys))
		if err != nil {
			return nil, err
		}
		ans.Log.Seen = append(ans.Log.Seen, at)
	}
	found, err := audit.Verify(ctx, p.Log, PublicKeys(ans.Keys), ans.Log.Seen...)
	if err != nil {
		return nil, err
	}
	ans.Log.Report = *found
	if f, ok := errors.AsType[*fault.Error](damaged(found.Problems)); ok {
		f.Why, f.Hint = append(f.Why,
			"the calls of other lines can still be listed; keep a copy of the directory as it is"),
			[]string{"rye audit list", "rye docs audit"}
		return ans, f
	}
	for _, m := range found.Machines {
		if m.By == m.Key && len(c.Key) == 0 {
			a.Term.Note(
				"machine %s has no voucher from your key, so others can't verify what it signs: rye audit vouch",
				m.Key.Fingerprint().Short())
		}
	}
	switch {
	case found.Head.Line == 0:
		a.Term.Note("no audit log yet")
	case len(ans.Keys) == 0:
		a.Term.Warn("no trusted keys: the log's signature is not verified")
	default:
		a.Term.Note(
			"keep this elsewhere, to find out another time if the end was taken away: rye audit verify --seen %s",
			Position(found.Head))
	}
	return ans, nil
}

// seenPosition reads a position, or a file that says one: a receipt, or what this command has written.
func seenPosition(a *cli.App, arg string, keys []key.Public) (record.Position, error) {
	if at, ok := ParsePosition(arg); ok {
		return at, nil
	}
	b, err := osfile.ReadSmall(arg, attest.MaxEnvelope)
	if errors.Is(err, fs.ErrNotExist) {
		return record.Position{}, fault.New(fault.Validation, "--seen is %q, neither a file nor a position", arg).
			From(err).Because("a position is FILE/LINE/SUM, as in head/12/blake3:…, with all digits of the sum").
			Try("rye audit verify")
	}
	if err != nil {
		return record.Position{}, err
	}
	var file struct {
		Envelope string `json:"payloadType"`
		Data     struct {
			Log *struct {
				Head record.Position `json:"head"`
			} `json:"log"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return record.Position{}, fault.New(fault.Parsing,
			"%q is neither a receipt nor what rye audit verify --json has written", arg).From(err)
	}
	at := record.Position{}
	if file.Data.Log != nil {
		at = file.Data.Log.Head
	}
	if file.Envelope != "" {
		r, err := receipt.Verify(b, keys)
		if err != nil {
			return record.Position{}, fmt.Errorf("%q: %w", arg, err)
		}
		at = r.Log
	}
	if at.Line < 1 {
		return record.Position{}, fault.New(fault.Validation, "%q says no position in the log", arg)
	}
	return at, nil
}

func (v *auditVerified) Text(t *cli.Terminal) {
	for _, r := range v.Receipts {
		r.text(t, v)
	}
	if v.Log == nil {
		return
	}
	l := v.Log
	if len(l.Problems) > 0 {
		for _, p := range l.Problems {
			t.Printf("%s  %s\n", t.Stdout.Paint(cli.RoleError, "bad", t.Ascii), problemText(p))
		}
		return
	}
	t.Printf("%s  the audit log in %s\n", t.Stdout.Paint(cli.RoleGood, "verified", t.Ascii), l.Dir)
	calls := fault.Count(l.Calls, "call")
	if l.Unfinished > 0 {
		calls += fmt.Sprintf(", %d of them unfinished", l.Unfinished)
	}
	rows := [][]string{{"  calls", calls}, {"  lines",
		fmt.Sprintf("%d in %s", l.Lines, fault.Count(l.Segments, "segment"))}}
	for _, m := range l.Machines {
		rows = append(rows, []string{"  signed by", fmt.Sprintf("machine %s, %s; %s", m.Key.Fingerprint().Short(),
			fault.Count(m.Checkpoints, "checkpoint"), v.voucher(m.Key, m.By))})
	}
	for _, p := range l.Pruned {
		rows = append(rows, []string{"  pruned", fmt.Sprintf("%s with %s before %s, on %s; export %s",
			fault.Count(int64(p.Segments), "segment"), fault.Count(p.Calls, "call"),
			p.Before.Format(time.DateOnly), p.At.Format(time.DateOnly), p.Export)})
	}
	if n := int64(len(l.Seen)) - l.SeenPruned; n > 0 {
		rows = append(rows, []string{"  seen", fault.Count(n, "position") + ", still there"})
	}
	if l.SeenPruned > 0 {
		rows = append(rows, []string{"  seen", fault.Count(l.SeenPruned,
			"position") + " in segments that were pruned: not compared"})
	}
	if l.Tail > 0 {
		rows = append(rows, []string{"  tail", fault.Count(l.Tail,
			"line") + " after the last mark: their removal would not be detected"})
	}
	if l.Torn > 0 {
		rows = append(rows, []string{"  torn", fault.Count(l.Torn,
			"file") + " of a process that died while it wrote: no damage"})
	}
	if l.Head.Line > 0 {
		rows = append(rows, []string{"  head", Position(l.Head)})
	}
	t.Rows(rows)
}

// voucher names the key that vouches for a machine.
func (v *auditVerified) voucher(machine, by key.Public) string {
	if by.IsZero() {
		return "not checked for a voucher"
	}
	who := ""
	for _, l := range v.Keys {
		if l.Key == by {
			who = l.Name
		}
	}
	if by == machine {
		return cmp.Or(who, "the key that was given")
	}
	return fmt.Sprintf("%q %s vouches for it", who, by.Fingerprint().Short())
}
