package threads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/audits"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/audit/receipt"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/exec/thread/transcript/export"
	lockfile "github.com/rye-build/rye/lock/file"
)

// This file writes a thread to an export or to a recording.

type exportRun struct {
	Thread     string `arg:"" complete:"thread|path" help:"Thread id or directory."`
	Output     string `short:"o" placeholder:"FILE" complete:"file" help:"Write to FILE."`
	Lock       string `placeholder:"FILE" complete:"file" help:"Lock that the thread ran with, if its directory lacks it."`
	Unfinished bool   `help:"Export a thread without a signed end."`
	Recording  string `placeholder:"NAME" help:"Write a recording beside the directive, for rye test."`
}

type exported struct {
	Thread string     `json:"thread"`
	Status string     `json:"status"`
	File   string     `json:"file"`
	Digest cas.Digest `json:"digest"` // of the file
	Bytes  int64      `json:"bytes"`
	Lock   bool       `json:"lock"`
}

func (e exported) Text(t *cli.Terminal) { t.Printf("%s\n", e.File) }

func (c *exportRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	source, done, err := find(app, c.Thread)
	if err != nil {
		return nil, err
	}
	defer done()
	if source.v1 || source.export != "" || filepath.Base(source.lines) != transcript.LinesFile {
		return nil, fault.New(fault.Validation,
			"%q can't be exported: it isn't the directory of a thread of this rye", c.Thread)
	}
	if c.Recording != "" {
		return c.record(app, source)
	}
	options, err := c.options(ctx, app, source)
	if err != nil {
		return nil, err
	}
	ans := exported{File: c.Output, Lock: options.Lock != nil}
	if ans.File == "" {
		ans.File = path.Base(filepath.ToSlash(source.dir)) + ".tar.zst"
	}
	file, err := paths.ToWrite(app, ans.File)
	if err != nil {
		return nil, err
	}
	sum := cas.NewHasher()
	var report *transcript.Report
	err = osfile.WriteFile(file, 0o644, false, func(w io.Writer) (err error) {
		report, err = export.Write(ctx, io.MultiWriter(w, sum), source.dir, *options)
		return err
	})
	if p, ok := errors.AsType[*transcript.Problem](err); ok {
		f := fault.Of(err)
		f.Text = fmt.Sprintf("%q can't be exported: %s", c.Thread, p)
		if p.Kind == transcript.Unfinished {
			f.Try("rye thread export " + fault.Quote(c.Thread) + " --unfinished")
		}
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	ans.Thread, ans.Status, ans.Digest = report.Thread, report.Status, sum.Digest()
	if fi, err := os.Stat(file); err == nil {
		ans.Bytes = fi.Size()
	}
	if options.Voucher == nil {
		app.Term.Note(
			"your key hasn't signed this machine's key, so others need %s to verify the export: rye audit vouch",
			options.Key.Public())
	}
	return ans, nil
}

// record writes a recording of a thread, by default next to its directive.
func (c *exportRun) record(app *cli.App, source *source) (cli.Answer, error) {
	events, err := replay.RecordingOf(source.dir)
	if err != nil {
		return nil, err
	}
	started, last := events[0].Payload, events[len(events)-1]
	if len(events) > 1 && last.Type == transcript.TypeCheckpoint {
		last = events[len(events)-2]
	}
	if !last.Type.IsEnd() && !c.Unfinished {
		return nil, fault.New(fault.Validation, "%q has not ended", c.Thread).
			Try(fault.Command("rye thread export", c.Thread, "--recording", c.Recording, "--unfinished"))
	}
	var buffer bytes.Buffer
	if err := replay.WriteRecording(&buffer, events); err != nil {
		return nil, err
	}
	ans := exported{Thread: path.Base(filepath.ToSlash(source.dir)), Status: string(last.Type), File: c.Output,
		Digest: cas.Sum(buffer.Bytes()), Bytes: int64(buffer.Len())}
	if ans.File == "" {
		directive, _ := started["directive"].(map[string]any)["ref"].(string) // the schema requires both
		if ans.File, err = c.recordingFile(app, directive); err != nil {
			return nil, err
		}
	}
	file, err := paths.ToWrite(app, ans.File)
	if err != nil {
		return nil, err
	}
	return ans, osfile.WriteFile(file, 0o644, false, osfile.BytesOf(buffer.Bytes()))
}

// recordingFile returns the path for a recording of a directive, and creates its directory.
func (c *exportRun) recordingFile(a *cli.App, directive string) (string, error) {
	if err := portable.CheckID(c.Recording); err != nil {
		return "", fault.New(fault.Validation, "invalid name of a recording %q: %v", c.Recording, err)
	}
	p, err := paths.Paths(a).FindProject()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(p.DotAI(), "directives",
		filepath.FromSlash(replay.RecordingDir(strings.TrimPrefix(directive, "directive:"))))
	if err := paths.RefuseLinks(a, dir); err != nil {
		return "", err
	}
	return filepath.Join(dir, c.Recording+replay.RecordingExt), os.MkdirAll(dir, 0o777)
}

// options gathers the key, the voucher and the lock for the export.
func (c *exportRun) options(ctx context.Context, app *cli.App, source *source) (*export.Options, error) {
	auditDirs, err := audits.Dirs(app)
	if err != nil {
		return nil, err
	}
	keys, err := audits.AuditKeys(ctx, app, auditDirs, nil)
	if err != nil {
		return nil, err
	}
	o := &export.Options{Now: app.Now(), Check: transcript.Check{Keys: audits.PublicKeys(keys), Thread: source.thread,
		Unfinished: c.Unfinished}}
	if o.Key, err = receipt.MachineKey(auditDirs.Machine); err != nil {
		return nil, err
	}
	o.Voucher = receipt.Voucher(auditDirs.Machine, o.Key.Public())
	o.Lock, err = c.lock(app, source)
	return o, err
}

// lock reads the lock that the thread ran with, or nil if it had none.
func (c *exportRun) lock(app *cli.App, s *source) ([]byte, error) {
	if c.Lock != "" {
		return osfile.ReadSmall(c.Lock, transcript.MaxLock)
	}
	data, err := transcript.ReadLock(s.dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	want, err := transcript.LockOf(s.dir)
	if err != nil {
		return nil, err
	}
	project, err := paths.Paths(app).FindProject()
	if err != nil {
		return nil, err
	}
	data, err = osfile.ReadSmall(filepath.Join(project.Root, lockfile.Name), transcript.MaxLock)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil || cas.Sum(data) != want {
		return nil, fault.New(fault.NotFound, "the lock that %s ran with is no longer the project's rye.lock",
			c.Thread).On("lock", want.String()).
			Because("expected "+want.String(), "git may have it: git log -p rye.lock").Try("rye thread export " +
			fault.Quote(c.Thread) + " --lock FILE")
	}
	return data, nil
}
