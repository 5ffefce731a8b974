package registries

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/lock/registry"
)

type publishRun struct {
	Bundle string `arg:"" optional:"" complete:"bundle|own|path" help:"Bundle, item or archive; default: the project's."`
	registryFlag
	As      string `placeholder:"ID" help:"Id of the bundle that one item makes; default: the item's."`
	DryRun  bool   `help:"Show what would be published; send nothing."`
	Stage   bool   `help:"Let it wait for the approval of owners."`
	Release string `placeholder:"ID" help:"With --stage: release it together with what is staged."`
	trusts.KeyFlag
}

// published is a version that the registry has.
type published struct {
	Registry string `json:"registry"`
	DryRun   bool   `json:"dry_run"`
	Files    int    `json:"files"`
	registry.Published
	Secrets  int              `json:"secrets"` // how many things in it look like secrets
	Compared *compared        `json:"compared,omitempty"`
	Staged   *registry.Staged `json:"staged,omitempty"`
}

// compared says what has changed since the version before.
type compared struct {
	Version string `json:"version"`
	Summary string `json:"summary"`
	Least   string `json:"least"` // the lowest version that the changes allow
	Early   bool   `json:"early"` // this one is lower
}

// Text implements cli.Answer.
func (p published) Text(t *cli.Terminal) {
	if p.DryRun {
		return
	}
	if p.Staged != nil {
		t.Printf("%s\n", p.Staged.ID)
		t.Note("%s@%s is staged at %s: it needs %s, with rye release approve %s", p.Bundle, p.Version, p.Registry,
			fault.Count(int64(p.Staged.Needs), "approval"), p.Staged.ID)
		return
	}
	t.Printf("%s@%s\n", p.Bundle, p.Version)
	t.Note("published at %s as entry %d of its log", p.Registry, p.Leaf)
}

// Run implements cli.Runner.
func (c *publishRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	if c.Release != "" && !c.Stage {
		return nil, fault.New(fault.Validation, "--release is for what is staged").Try(app.With("--stage"))
	}
	if !isRef(c.Bundle) && (c.As != "" || c.Key != "") {
		return nil, fault.New(fault.Validation, "--as and --key are for one item: a bundle has its id and signatures").
			Try("rye publish tool:acme/fetch --as acme/fetch-tool")
	}
	workspace, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	temporary, err := osfile.TempDir("publish")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temporary)
	file, err := os.Create(filepath.Join(temporary, "archive"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	found, err := c.write(ctx, app, workspace, file)
	if err != nil {
		return nil, err
	}
	answer, err := c.preview(ctx, app, found, file)
	if err != nil {
		return nil, err
	}
	if c.DryRun {
		return *answer, nil
	}
	session, err := openFor(ctx, app, answer.Registry, answer.Bundle)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	verb := "publish "
	if c.Stage {
		verb = "stage "
	}
	if err := app.Confirm(ctx, verb+answer.Bundle+"@"+answer.Version+" at "+answer.Registry+
		"? A version never changes."); err != nil {
		return nil, err
	}
	progress := app.Progress("sending", answer.Size)
	defer progress.Done()
	body := counting{file, progress}
	if c.Stage {
		answer.Staged, err = session.Stage(ctx, c.Release, body, answer.Size)
		return *answer, err
	}
	version, err := session.Publish(ctx, body, answer.Size)
	if err != nil {
		return nil, err
	}
	if version.Manifest != answer.Manifest || version.Archive != answer.Archive {
		return nil, fault.New(fault.Integrity, "the registry answers that it published something else").
			On("expected", answer.Archive.String()).On("found", version.Archive.String())
	}
	answer.Published = *version
	return *answer, nil
}

// A counting reader counts what is sent.
type counting struct {
	io.Reader
	progress *cli.Progress
}

func (c counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.progress.Add(int64(n))
	return n, err
}

// write writes the archive to publish, and returns what it is of.
func (c *publishRun) write(ctx context.Context, app *cli.App, w *paths.Workspace, file *os.File) (*find.Found, error) {
	if isRef(c.Bundle) {
		if err := c.writeItem(ctx, app, w, file); err != nil {
			return nil, err
		}
		return w.Workspace.Finder().At(ctx, file.Name())
	}
	found, err := w.Find(ctx, c.Bundle)
	if err == nil {
		err = found.NeedV2()
	}
	if err != nil {
		return nil, err
	}
	if found.Where == find.InBinary {
		return nil, fault.New(fault.Denied, "%q is part of the binary and unsigned: it can't be published",
			find.LibraryID).On("reason", "builtin")
	}
	return found, writeArchive(ctx, app, found, file)
}

// writeArchive writes the archive of a bundle, or copies an archive that was named.
func writeArchive(ctx context.Context, app *cli.App, found *find.Found, file *os.File) error {
	if found.Archive != nil {
		_, err := io.Copy(file, found.Archive)
		return err
	}
	if err := found.Read(ctx); err != nil {
		return err
	}
	body, err := found.Bundle.Body()
	if err != nil {
		return err
	}
	return found.Changed(archive.Write(ctx, file, body, found.Bundle.Signatures, found.Files,
		signs.SignerKeys(app, found.Bundle.Signatures)...))
}

// preview verifies the archive as the registry will, and shows what would be published.
func (c *publishRun) preview(ctx context.Context, app *cli.App, found *find.Found, file *os.File) (*published, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	head, err := archive.ReadHead(ctx, file)
	if err != nil {
		return nil, err
	}
	at, err := c.at(app, head.List.BundleID)
	if err != nil {
		return nil, err
	}
	session, err := openToRead(ctx, app, at, c.Registry != "")
	if err != nil {
		return nil, err
	}
	if found.Archive != nil {
		found.Archive = file // what was named has been read
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	below, needs, err := found.Below(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if isRef(c.Bundle) {
		same, err := session.SameItem(ctx, file)
		if err == nil && !same {
			err = c.taken(head.List.BundleID, "the registry's newest version of it is not of this one item")
		}
		if err != nil {
			return nil, err
		}
	}
	seen, err := session.Preview(ctx, file, below, bundle.VerifyOptions{Now: app.Clock(), Needs: needs,
		Parts: parts.Verify})
	if err != nil {
		return nil, err
	}
	answer := &published{Registry: at, DryRun: c.DryRun, Files: seen.Files, Published: seen.Published,
		Secrets: len(seen.Secrets)}
	if seen.Changes != nil {
		answer.Compared = &compared{seen.Last, seen.Changes.Summary, seen.Least, seen.Early()}
	}
	answer.show(app.Term, seen)
	return answer, nil
}

// show says what would be published.
func (p *published) show(t *cli.Terminal, seen *registry.Preview) {
	t.Note("%s@%s: %s, %s, licence %s", p.Bundle, p.Version, fault.Count(int64(p.Files), "file"),
		cli.ByteSize(float64(p.Size)), orNone(p.License))
	t.Note("registry %s, archive %s, signed by %s", p.Registry, p.Archive.Short(),
		fault.Count(int64(len(p.Signers)), "key"))
	t.Note("consumers need a policy line: %s: {keys: [NAME]}", namesOf(p.Bundle))
	for i, found := range seen.Secrets {
		if i == maxSecrets {
			t.Warn("and %d more", len(seen.Secrets)-i)
			break
		}
		t.Warn("this looks like a secret: %s:%d: %s %s", found.Path, found.Line, found.Rule, found.Excerpt)
	}
	if p.Compared == nil {
		return
	}
	t.Note("since %s: %s", p.Compared.Version, p.Compared.Summary)
	for _, item := range seen.Changes.Items {
		t.Note("  %s  %s %s", item.Class, item.Change, item.Ref)
	}
	if p.Compared.Early {
		t.Warn("the changes allow %s at the earliest, and this is %s", p.Compared.Least, p.Version)
	}
}

// maxSecrets is how many findings are shown.
const maxSecrets = 10
