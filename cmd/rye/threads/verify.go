package threads

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/thread/roster"
	"github.com/rye-build/rye/exec/thread/transcript"
	v1 "github.com/rye-build/rye/exec/thread/transcript/v1"
	"github.com/rye-build/rye/manifest/key"
)

type verifyRun struct {
	Thread     string   `arg:"" complete:"thread" help:"Thread id, directory, export or transcript.jsonl."`
	Key        []string `placeholder:"PUBKEY" sep:"none" complete:"file" help:"Trust this key (public key, PEM file or name; repeatable)."`
	Seen       []string `placeholder:"LINE/DIGEST" sep:"none" help:"Line that the transcript must still contain (repeatable)."`
	Unfinished bool     `help:"Accept a thread without a signed end."`
}

// verified is the answer of rye thread verify.
type verified struct {
	Source string                `json:"source"`
	Keys   []audits.AuditKeyLine `json:"keys"` // the trusted keys
	*transcript.Report
	Export *exportLine    `json:"export,omitempty"`
	Pruned *roster.Pruned `json:"pruned,omitempty"` // what remains of a thread whose transcript was removed
	// false only for a thread of rye 1 whose status no signed thread.json confirms
	Signed bool `json:"status_signed"`
}

// exportLine has what an export says in addition to its transcript.
type exportLine struct {
	Manifest cas.Digest `json:"manifest"`
	Machine  key.Public `json:"machine"` // that signed it
	By       key.Public `json:"by"`      // the key that vouches for the machine, or itself
	Time     string     `json:"time"`
	Lock     bool       `json:"lock"` // the export contains the thread's lock
}

// keysOf returns the trusted keys: those of --key, else the user's own and this machine's.
func keysOf(ctx context.Context, a *cli.App, keys []string) ([]audits.AuditKeyLine, error) {
	p, err := audits.Dirs(a)
	if err != nil && len(keys) == 0 {
		return nil, err // with --key no directory is needed
	}
	return audits.AuditKeys(ctx, a, p, keys)
}

func (c *verifyRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	s, done, err := find(a, c.Thread)
	if row, err := wasPruned(a, err); err != nil || row != nil {
		return c.pruned(row, err)
	}
	if err != nil {
		return nil, err
	}
	defer done()
	ans := &verified{Source: c.Thread}
	if ans.Keys, err = keysOf(ctx, a, c.Key); err != nil {
		return nil, err
	}
	check := transcript.Check{Keys: audits.PublicKeys(ans.Keys), Unfinished: c.Unfinished}
	for _, text := range c.Seen {
		at, err := parseSeen(text)
		if err != nil {
			return nil, err
		}
		check.Seen = append(check.Seen, at)
	}
	if s.v1 && len(c.Seen) > 0 {
		return nil, fault.New(fault.Validation, "--seen doesn't work for transcripts of rye 1: %q", c.Thread)
	}
	r, x, err := s.verify(ctx, check)
	if err != nil {
		return nil, advise(err, "rye thread verify", c.Thread).Asked()
	}
	if ans.Report, ans.Signed = r, s.signed || !s.v1; x != nil {
		ans.Export = &exportLine{x.Export, x.Machine, x.By, x.Time.Format(timeForm), x.LockBytes > 0}
	}
	if r.Problem != nil {
		f := r.Problem.Fault()
		f.Text = fmt.Sprintf("%q was changed: %s", c.Thread, r.Problem)
		if r.Problem.Kind == transcript.Unfinished || r.Problem.Kind == transcript.Unsigned ||
			r.Problem.Kind == transcript.Untrusted {
			f.Text = fmt.Sprintf("%q is not proven: %s", c.Thread, r.Problem)
		}
		if r.Problem.Kind == transcript.Unfinished {
			f.Try("rye thread verify " + fault.Quote(c.Thread) + " --unfinished")
		}
		return ans, advise(f, "rye thread verify", c.Thread).Asked()
	}
	if r.Unsigned > 0 {
		a.Term.Warn("the last %s not signed: they prove nothing", count(r.Unsigned, "line is", "lines are"))
	}
	return ans, nil
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// advise adds a hint how to trust an unknown signer.
func advise(err error, command, name string) *fault.Error {
	f := fault.Of(err)
	if f.Code == fault.UntrustedKey {
		f.Hint = []string{command + " " + fault.Quote(name) + " --key PUBKEY"}
	} else if _, ok := errors.AsType[*archive.Error](err); ok {
		f.Hint = nil
	}
	return f
}

// parseSeen parses a position of --seen.
func parseSeen(text string) (p transcript.Position, err error) {
	line, digest, _ := strings.Cut(text, "/")
	p.Seq, err = strconv.ParseInt(line, 10, 64)
	if err == nil {
		p.Digest, err = cas.ParseDigest(digest)
	}
	if err != nil || p.Seq < 1 {
		return p, fault.New(fault.Validation, "--seen is %q, expected LINE/DIGEST as in 16/blake3:…", text)
	}
	return p, nil
}

func (v *verified) Text(t *cli.Terminal) {
	r := v.Report
	if v.Pruned != nil {
		prunedText(t, r.Thread, r.Status, v.Pruned)
		return
	}
	if p := r.Problem; p != nil {
		t.Printf("%s  %s  %s\n", t.Stdout.Paint(cli.RoleError, "bad", t.Ascii), p.Kind, p)
		return
	}
	t.Printf("%s  %s\n", t.Stdout.Paint(cli.RoleGood, "verified", t.Ascii), r.Thread)
	rows := [][]string{{"  status", r.Status}}
	if r.Format == v1.Format {
		signed := map[bool]string{true: ", signed in " + threadFile, false: ", which rye 1 didn't sign"}[v.Signed]
		rows = [][]string{{"  status", r.Status + signed}, {"  format", r.Format}}
	}
	rows = append(rows, v.bound()...)
	for _, m := range r.Models {
		rows = append(rows, []string{"  model", modelText(m)})
	}
	for _, u := range r.Tools {
		rows = append(rows, []string{"  tool", itemText(u.Item) + "  " + fault.Count(u.Calls, "call")})
	}
	rows = append(rows, []string{"  turns", strconv.FormatInt(r.Turns, 10)},
		[]string{"  lines", fmt.Sprintf("%d, %s", r.Lines, fault.Count(r.Checkpoints, "checkpoint"))})
	if r.Unsigned > 0 {
		rows = append(rows, []string{"  tail", fault.Count(r.Unsigned, "unsigned line")})
	}
	for _, m := range r.Machines {
		rows = append(rows, []string{"  signed by", v.signer(m.Key, m.By)})
	}
	if x := v.Export; x != nil {
		rows = append(rows, []string{"  export", x.Manifest.String()})
	}
	if r.Format == transcript.Format {
		rows = append(rows, []string{"  last", fmt.Sprintf("%d/%s", r.Last.Seq, r.Last.Digest)})
	}
	t.Rows(rows)
}

// bound returns rows with the items and documents that the thread was bound to.
func (v *verified) bound() (rows [][]string) {
	s := v.Started
	if s == nil {
		return nil
	}
	rows = [][]string{{"  directive", itemText(s.Directive)}}
	if s.Loop.Ref != "" {
		rows = append(rows, []string{"  loop", itemText(s.Loop)})
	}
	for _, d := range []struct {
		name string
		d    cas.Digest
	}{{"  set", s.Set}, {"  lock", s.Lock}, {"  inputs", s.Inputs}} {
		if !d.d.IsZero() {
			rows = append(rows, []string{d.name, d.d.String()})
		}
	}
	for _, d := range s.Policy {
		rows = append(rows, []string{"  policy", d.String()})
	}
	if s.Parent != "" {
		rows = append(rows, []string{"  parent", s.Parent})
	}
	return rows
}

func itemText(i transcript.Item) string {
	if i.Digest.IsZero() {
		return i.Ref
	}
	return i.Ref + "  " + i.Digest.String()
}

func modelText(m transcript.ModelUse) string {
	text := m.Model
	if m.Provider.Ref != "" {
		text += " of " + itemText(m.Provider)
	}
	text += "  " + fault.Count(m.Calls, "call")
	if m.Failed > 0 {
		text += fmt.Sprintf(", %d failed", m.Failed)
	}
	if u := m.Usage; u.Reported {
		text += fmt.Sprintf(", %d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output+u.Reasoning)
	}
	if m.Cost > 0 {
		text += ", " + dollars(m.Cost)
	}
	return text
}

// dollars writes nano-dollars with four decimals.
func dollars(nano int64) string {
	units := (nano + 50_000) / 100_000
	return fmt.Sprintf("$%d.%04d", units/10_000, units%10_000)
}

// signer describes the key that makes a machine trusted.
func (v *verified) signer(machine, by key.Public) string {
	who := ""
	for _, l := range v.Keys {
		if l.Key == by {
			who = l.Name
		}
	}
	text := "key " + machine.Fingerprint().Short()
	if who != "" && by == machine {
		return text + " " + strconv.Quote(who)
	}
	if by == machine {
		return text
	}
	return fmt.Sprintf("machine %s, trusted by %q %s", machine.Fingerprint().Short(), who, by.Fingerprint().Short())
}
