package registries

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/cosign"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/cmd/rye/signs"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/exec/parts"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
)

type releaseListRun struct{ registryFlag }

type releaseShowRun struct {
	ID string `arg:"" name:"id" help:"Id, as rye release list shows it."`
	registryFlag
}

type releaseApproveRun struct {
	releaseShowRun
	Sign bool `help:"Verify the archives, and add a signature of your key."`
	trusts.KeyFlag
}

type releaseRejectRun struct{ releaseShowRun }

// releaseList is what waits at a registry.
type releaseList struct {
	Registry string            `json:"registry"`
	Staged   []registry.Staged `json:"staged"`
}

// Text implements cli.Answer.
func (l releaseList) Text(t *cli.Terminal) {
	for i := range l.Staged {
		s := &l.Staged[i]
		t.Printf("%s  %s  by %s, %s, %d of %d approvals\n", s.ID, strings.Join(contents(s), ", "), s.By,
			s.Created.Format(time.DateOnly), len(s.Approvals), s.Needs)
	}
	if len(l.Staged) == 0 {
		t.Note("nothing waits for approval at %s", l.Registry)
	}
}

// contents says what is staged.
func contents(s *registry.Staged) (all []string) {
	if s.Change != nil {
		return []string{s.Space + ": " + s.Change.String()}
	}
	for _, v := range s.Versions {
		all = append(all, v.Bundle+"@"+v.Version)
	}
	return all
}

// releaseAnswer is what is staged under an id, or was.
type releaseAnswer struct {
	Registry string `json:"registry"`
	registry.Staged
}

// Text implements cli.Answer.
func (a releaseAnswer) Text(t *cli.Terminal) {
	t.Printf("%s", cli.Styled(described(&a.Staged)))
	switch {
	case a.Done && a.Change != nil:
		t.Note("approved: the namespace has changed")
	case a.Done:
		t.Note("approved: released at %s as entry %d of its log", a.Registry, a.Versions[0].Leaf)
	default:
		t.Note("it waits for approval, %d of %d, until %s", len(a.Approvals), a.Needs, a.Expires.Format(time.DateOnly))
	}
}

// described returns the lines about what is staged that someone who approves it should see.
func described(s *registry.Staged) string {
	var text strings.Builder
	line := func(words ...string) { text.WriteString(fault.Clip(strings.Join(words, "  "), 400) + "\n") }
	line(s.ID, "by "+s.By, s.Created.Format(time.DateOnly))
	if s.Change != nil {
		line("  change", contents(s)[0])
	}
	for _, v := range s.Versions {
		line("  release", v.Bundle+"@"+v.Version, cli.ByteSize(float64(v.Size)), "licence "+orNone(v.License),
			"signed by "+fault.Count(int64(len(v.Signers)), "key"), v.Archive.Short())
	}
	for _, approved := range s.Approvals {
		state := "approved by " + approved.Account
		if approved.Digest != s.Digest {
			state += ", before it changed"
		}
		line("  " + state)
	}
	return text.String()
}

// releaseRejected is what was ended.
type releaseRejected struct {
	Registry string `json:"registry"`
	ID       string `json:"id"`
}

// Text implements cli.Answer.
func (r releaseRejected) Text(t *cli.Terminal) { t.Note("%s is not staged any more", r.ID) }

// Run implements cli.Runner.
func (c *releaseListRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, session, err := c.session(ctx, app, "")
	if err != nil {
		return nil, err
	}
	all, err := session.AllStaged(ctx)
	if err != nil {
		return nil, err
	}
	return releaseList{at, all}, nil
}

// session returns a session with a bundle's registry, with a token.
func (f *registryFlag) session(ctx context.Context, app *cli.App, id string) (string, *registry.Session, error) {
	at, err := f.at(app, id)
	if err != nil {
		return "", nil, err
	}
	session, err := open(ctx, app, at)
	return at, session, err
}

// Run implements cli.Runner.
func (c *releaseShowRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, session, err := c.session(ctx, app, "")
	if err != nil {
		return nil, err
	}
	staged, err := session.Staged(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	return releaseAnswer{at, *staged}, nil
}

// Run implements cli.Runner.
func (c *releaseRejectRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, session, err := c.session(ctx, app, "")
	if err != nil {
		return nil, err
	}
	return releaseRejected{at, c.ID}, session.Reject(ctx, c.ID)
}

// Run implements cli.Runner.
func (c *releaseApproveRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	at, session, err := c.session(ctx, app, "")
	if err != nil {
		return nil, err
	}
	staged, err := session.Staged(ctx, c.ID)
	if err != nil {
		return nil, err
	}
	app.Term.Prompt("%s", cli.Styled(described(staged)))
	if err := app.Confirm(ctx, "approve it?"); err != nil {
		return nil, err
	}
	if c.Sign && !staged.Done {
		if staged.Change != nil {
			return nil, fault.New(fault.Validation, "--sign is for releases: %q is a change of a namespace", c.ID)
		}
		if staged, err = c.sign(ctx, app, session, staged); err != nil {
			return nil, err
		}
	}
	digest, err := staged.Shown()
	if err != nil {
		return nil, err
	}
	if staged, err = session.Approve(ctx, c.ID, digest); err != nil {
		return nil, err
	}
	return releaseAnswer{at, *staged}, nil
}

// sign adds a signature to each archive that is staged, after it was verified here.
func (c *releaseApproveRun) sign(ctx context.Context, app *cli.App, session *registry.Session,
	staged *registry.Staged) (*registry.Staged, error) {
	signer, err := trusts.SigningKey(ctx, app, c.Key)
	if err != nil {
		return nil, err
	}
	work, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	shown := staged.Versions
	for i := range shown {
		s := signing{app: app, work: work, session: session, key: signer, id: staged.ID, version: &shown[i]}
		made, err := s.run(ctx)
		if err != nil {
			return nil, err
		}
		if made != nil {
			staged = made
		}
	}
	// What was shown is what is approved: the registry can't slip in another version meanwhile.
	if len(staged.Versions) != len(shown) {
		return nil, changedMeanwhile(staged.ID)
	}
	for i := range shown {
		if staged.Versions[i].Manifest != shown[i].Manifest || staged.Versions[i].Version != shown[i].Version {
			return nil, changedMeanwhile(staged.ID)
		}
	}
	return staged, nil
}

func changedMeanwhile(id string) error {
	return fault.New(fault.Conflict, "%q has changed since you have seen it", id).On("id", id).
		Try("rye release show " + fault.Quote(id))
}

// A signing adds a signature to one archive that is staged.
type signing struct {
	app     *cli.App
	work    *paths.Workspace
	session *registry.Session
	key     trusts.Signer
	id      string
	version *registry.Published
}

// run brings the archive, and sends it back with the signature. Nil: it has the signature already.
func (s *signing) run(ctx context.Context) (*registry.Staged, error) {
	file, err := os.CreateTemp("", "rye-release-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	body, err := s.session.StagedArchive(ctx, s.id, s.version)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	if _, err := io.Copy(file, body); err != nil {
		return nil, err
	}
	stored, keys, err := s.stored(ctx, file)
	if err != nil {
		return nil, err
	}
	doc := stored.Bundle.Document
	before := len(doc.Signatures)
	if err := cosign.SignBeside(&doc, s.key.Private, func(f key.Fingerprint) (key.Public, bool) {
		for _, k := range keys {
			if k.Public.Fingerprint() == f {
				return k.Public, true
			}
		}
		return key.Public{}, false
	}, s.app.Clock()); err != nil {
		return nil, err
	}
	if len(doc.Signatures) == before {
		return nil, nil
	}
	text, err := stored.Bundle.Body()
	if err != nil {
		return nil, err
	}
	if err := file.Truncate(0); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	for _, k := range signs.SignerKeys(s.app, doc.Signatures) {
		if !slices.ContainsFunc(keys, func(had manifest.SignerKey) bool { return had.Public == k.Public }) {
			keys = append(keys, k)
		}
	}
	if err := archive.Write(ctx, file, text, doc.Signatures, stored.Files, keys...); err != nil {
		return nil, err
	}
	_, size, err := digestOf(file)
	if err != nil {
		return nil, err
	}
	return s.session.Cosign(ctx, s.id, file, size)
}

// stored verifies an archive with the keys that it carries, and brings it into the store.
func (s *signing) stored(ctx context.Context, file *os.File) (*find.Found, []manifest.SignerKey, error) {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, nil, err
	}
	head, err := archive.ReadHead(ctx, file)
	if err != nil {
		return nil, nil, err
	}
	options := bundle.VerifyOptions{Threshold: 1, Now: s.app.Clock(), Parts: parts.Verify}
	for _, k := range head.Keys {
		options.Signers = append(options.Signers, k.Public)
	}
	store, err := s.work.OpenStore(true)
	if err != nil {
		return nil, nil, err
	}
	finder := s.work.Finder(ctx)
	found, err := finder.At(ctx, file.Name())
	if err != nil {
		return nil, nil, err
	}
	report, err := found.Import(ctx, store, options, func(r io.Reader) io.Reader { return r })
	if err != nil {
		return nil, nil, err
	}
	if report.ID != s.version.Manifest {
		return nil, nil, fault.New(fault.Integrity, "the archive of %s@%s has another manifest than is shown",
			s.version.Bundle, s.version.Version).On("expected", s.version.Manifest.String()).
			On("found", report.ID.String())
	}
	stored, err := finder.Stored(ctx, report.ID)
	return stored, head.Keys, err
}
