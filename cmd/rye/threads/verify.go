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
	Thread     string   `arg:"" complete:"thread|path" help:"Thread id, directory, export or transcript.jsonl."`
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

func (c *verifyRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	source, done, err := find(app, c.Thread)
	if row, err := wasPruned(app, err); err != nil || row != nil {
		return c.pruned(row, err)
	}
	if err != nil {
		return nil, err
	}
	defer done()
	ans := &verified{Source: c.Thread}
	if ans.Keys, err = keysOf(ctx, app, c.Key); err != nil {
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
	if source.v1 && len(c.Seen) > 0 {
		return nil, fault.New(fault.Validation, "--seen doesn't work for transcripts of rye 1: %q", c.Thread)
	}
	report, x, err := source.verify(ctx, check)
	if err != nil {
		return nil, advise(err, "rye thread verify", c.Thread).Asked()
	}
	if ans.Report, ans.Signed = report, source.signed || !source.v1; x != nil {
		ans.Export = &exportLine{x.Export, x.Machine, x.By, x.Time.Format(timeForm), x.LockBytes > 0}
	}
	if report.Problem != nil {
		f := report.Problem.Fault()
		f.Text = fmt.Sprintf("%q was changed: %s", c.Thread, report.Problem)
		if report.Problem.Kind == transcript.Unfinished || report.Problem.Kind == transcript.Unsigned ||
			report.Problem.Kind == transcript.Untrusted {
			f.Text = fmt.Sprintf("%q is not proven: %s", c.Thread, report.Problem)
		}
		if report.Problem.Kind == transcript.Unfinished {
			f.Try("rye thread verify " + fault.Quote(c.Thread) + " --unfinished")
		}
		return ans, advise(f, "rye thread verify", c.Thread).Asked()
	}
	if report.Unsigned > 0 {
		app.Term.Warn("the last %s not signed: they prove nothing", count(report.Unsigned, "line is", "lines are"))
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

func (v *verified) Text(term *cli.Terminal) {
	report := v.Report
	if v.Pruned != nil {
		prunedText(term, report.Thread, report.Status, v.Pruned)
		return
	}
	if p := report.Problem; p != nil {
		term.Printf("%s  %s  %s\n", term.Stdout.Paint(cli.RoleError, "bad", term.Ascii), p.Kind, p)
		return
	}
	term.Printf("%s  %s\n", term.Stdout.Paint(cli.RoleGood, "verified", term.Ascii), report.Thread)
	rows := [][]string{{"  status", report.Status}}
	if report.Format == v1.Format {
		signed := map[bool]string{true: ", signed in " + threadFile, false: ", which rye 1 didn't sign"}[v.Signed]
		rows = [][]string{{"  status", report.Status + signed}, {"  format", report.Format}}
	}
	rows = append(rows, v.bound()...)
	for _, m := range report.Models {
		rows = append(rows, []string{"  model", modelText(m)})
	}
	for _, u := range report.Tools {
		rows = append(rows, []string{"  tool", itemText(u.Item) + "  " + fault.Count(u.Calls, "call")})
	}
	rows = append(rows, []string{"  turns", strconv.FormatInt(report.Turns, 10)},
		[]string{"  lines", fmt.Sprintf("%d, %s", report.Lines, fault.Count(report.Checkpoints, "checkpoint"))})
	if report.Unsigned > 0 {
		rows = append(rows, []string{"  tail", fault.Count(report.Unsigned, "unsigned line")})
	}
	for _, m := range report.Machines {
		rows = append(rows, []string{"  signed by", v.signer(m.Key, m.By)})
	}
	if x := v.Export; x != nil {
		rows = append(rows, []string{"  export", x.Manifest.String()})
	}
	if report.Format == transcript.Format {
		rows = append(rows, []string{"  last", fmt.Sprintf("%d/%s", report.Last.Seq, report.Last.Digest)})
	}
	term.Rows(rows)
}

// bound returns rows with the items and documents that the thread was bound to.
func (v *verified) bound() (rows [][]string) {
	started := v.Started
	if started == nil {
		return nil
	}
	rows = [][]string{{"  directive", itemText(started.Directive)}}
	if started.Loop.Ref != "" {
		rows = append(rows, []string{"  loop", itemText(started.Loop)})
	}
	for _, d := range []struct {
		name string
		d    cas.Digest
	}{{"  set", started.Set}, {"  lock", started.Lock}, {"  inputs", started.Inputs}} {
		if !d.d.IsZero() {
			rows = append(rows, []string{d.name, d.d.String()})
		}
	}
	for _, d := range started.Policy {
		rows = append(rows, []string{"  policy", d.String()})
	}
	if started.Parent != "" {
		rows = append(rows, []string{"  parent", started.Parent})
	}
	return rows
}

func itemText(i transcript.Item) string {
	if i.Digest.IsZero() {
		return i.Ref
	}
	return i.Ref + "  " + i.Digest.String()
}

func modelText(modelUse transcript.ModelUse) string {
	text := modelUse.Model
	if modelUse.Provider.Ref != "" {
		text += " of " + itemText(modelUse.Provider)
	}
	text += "  " + fault.Count(modelUse.Calls, "call")
	if modelUse.Failed > 0 {
		text += fmt.Sprintf(", %d failed", modelUse.Failed)
	}
	if u := modelUse.Usage; u.Reported {
		text += fmt.Sprintf(", %d tokens in, %d out", u.Input+u.CacheRead+u.CacheWrite, u.Output+u.Reasoning)
	}
	if modelUse.Cost > 0 {
		text += ", " + dollars(modelUse.Cost)
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
