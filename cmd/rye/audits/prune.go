package audits

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/journal"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit"
)

type auditPruneRun struct {
	Before string `placeholder:"DATE" required:"" help:"Remove segments whose last line is older: a date, or 90d."`
	Export string `placeholder:"FILE" complete:"file" help:"Export that holds the calls to be removed."`
	DryRun bool   `name:"dry-run" help:"Show what would be removed; remove nothing."`
}

type auditPruned struct {
	DryRun   bool            `json:"dry_run"`
	Before   string          `json:"before"`
	Segments []audit.Segment `json:"segments"` // removed, or to be removed with --dry-run
	Kept     int             `json:"kept"`     // old segments that a process still writes to
	Calls    int64           `json:"calls"`
	Bytes    int64           `json:"bytes"`
	Export   cas.Digest      `json:"export,omitzero"` // digest of the export file, recorded in the log
}

func (c *auditPruneRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	before, err := ParsePast("--before", c.Before, app.Now())
	if err != nil {
		return nil, err
	}
	dirs, err := Dirs(app)
	if err != nil {
		return nil, err
	}
	keys, err := AuditKeys(ctx, app, dirs, nil)
	if err != nil {
		return nil, err
	}
	found, err := audit.Verify(ctx, dirs.Log, PublicKeys(keys))
	if err != nil {
		return nil, err
	}
	if err := damaged(found.Problems); err != nil {
		f := fault.Of(err)
		f.Exit = fault.ExitRefused
		return nil, f
	}
	missing := map[cas.Digest]bool{} // digests of the lines that an export must contain
	old, err := audit.Old(ctx, dirs.Log, before, func(line []byte) error {
		missing[cas.Sum(line)] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	ans := auditPruned{DryRun: c.DryRun, Before: before.Format(time.RFC3339),
		Segments: append([]audit.Segment{}, old.Segments...), Kept: old.Kept}
	for _, s := range old.Segments {
		ans.Bytes, ans.Calls = ans.Bytes+s.Bytes, ans.Calls+s.Calls
	}
	if len(old.Segments) > 0 && (!c.DryRun || c.Export != "") {
		if ans.Export, err = c.exported(missing); err != nil {
			return nil, err
		}
	}
	if old.Kept > 0 {
		app.Term.Note("kept %s that a running process writes to", fault.Count(int64(old.Kept), "segment"))
	}
	if c.DryRun || found.Head.Line == 0 {
		return ans, nil
	}
	log, _, _, err := dirs.Open(paths.Keys(app), "rye "+cli.ThisVersion().Version, app.Now)
	if err != nil {
		return nil, err
	}
	return ans, errors.Join(log.Prune(ctx, old, ans.Export), log.Close(ctx))
}

// exported returns the digest of the file of --export. It refuses an export that lacks a line of missing, because
// pruning would lose that call.
func (c *auditPruneRun) exported(missing map[cas.Digest]bool) (cas.Digest, error) {
	refuse := func(format string, args ...any) *fault.Error {
		f := fault.New(fault.Validation, format, args...).On("before", c.Before)
		f.Exit = fault.ExitRefused
		name := c.Export
		if name == "" {
			name = "audit.jsonl"
		}
		return f.Try(fault.Command("rye audit export", "--until", c.Before, "-o", name),
			fault.Command("rye audit prune", "--before", c.Before, "--export", name))
	}
	if c.Export == "" {
		return cas.Digest{}, refuse("%s would be removed without an export",
			fault.Count(int64(len(missing)), "record"))
	}
	f, err := osfile.OpenRegular(c.Export)
	if errors.Is(err, fs.ErrNotExist) {
		return cas.Digest{}, refuse("%q not found", c.Export).From(err)
	}
	if err != nil {
		return cas.Digest{}, err
	}
	defer f.Close()
	sum := cas.NewHasher()
	lines := bufio.NewScanner(io.TeeReader(f, sum))
	lines.Buffer(nil, 4*journal.MaxLine) // an exported record joins the two lines of its call
	for lines.Scan() {
		delete(missing, cas.Sum(lines.Bytes()))
	}
	if err := lines.Err(); err != nil {
		return cas.Digest{}, refuse("%q is not an export of the audit log: %v", c.Export, err).From(err)
	}
	if n := int64(len(missing)); n > 0 {
		return cas.Digest{}, refuse("the export %q lacks %s that would be removed", c.Export, fault.Count(n, "record"))
	}
	return sum.Digest(), nil
}

func (p auditPruned) Text(term *cli.Terminal) {
	verb := "pruned"
	if p.DryRun {
		verb = "would prune"
		var rows [][]string
		for _, s := range p.Segments {
			rows = append(rows, []string{s.Name, fault.Count(s.Calls, "call"), timeText(s.Ended)})
		}
		term.Rows(rows)
	}
	text := fmt.Sprintf("%s %s with %s before %s, %s", verb, fault.Count(int64(len(p.Segments)), "segment"),
		fault.Count(p.Calls, "call"), p.Before, cli.ByteSize(float64(p.Bytes)))
	if !p.Export.IsZero() {
		text += "; export " + p.Export.String()
	}
	term.Printf("%s\n", text)
}
