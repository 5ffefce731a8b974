package bundles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/cmd/rye/spaces"
	"github.com/rye-build/rye/cmd/rye/trusts"
	"github.com/rye-build/rye/lock/index"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/exam"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/policy/yamltree"
	"github.com/rye-build/rye/manifest/rollback"
	"github.com/rye-build/rye/manifest/trust"
)

func BundleIndexCommand() cli.Command {
	return cli.Command{
		Path: "bundle index", Quiet: true, Group: "bundles", Help: "Create or update the index of a directory of archives.",
		More: "The index (index.yaml) is a signed list of the bundles whose archives (.tar.zst, .rye) are in DIR and below it. Projects name the " +
			"directory, or the https address of its index.yaml, as where bundles come from.\n\nEvery archive is verified first; if one is refused, " +
			"nothing is written. What is listed stays what it is: another bundle under an id and version that was listed before is refused. Each " +
			"change counts the index on, and if nothing changed nothing is written. It is believed by whoever's policy lets this key vouch for " +
			"index:NAME; what is listed in it is verified by its own signatures all the same.\n\nExamples:\n\n" +
			"    rye bundle index dist --name acme/bundles\n    rye bundle index dist --expires 2027-01-31 --key release",
		Aka: []string{"bundle publish", "publish", "index"},
		New: func() cli.Runner { return new(bundleIndexRun) }, Schema: "bundle-index/1", Output: bundleIndexed{},
	}
}

type bundleIndexRun struct {
	Dir     string `arg:"" complete:"dir" help:"Directory of archives."`
	Name    string `placeholder:"NAME" help:"Name of a new index, such as acme/bundles."`
	Expires string `placeholder:"DATE" help:"Expiry date or time, UTC; default: unchanged."`
	Closed  bool   `help:"Refuse bundles that require one that is missing."`
	trusts.KeyFlag
}

type bundleIndexed struct {
	File       string   `json:"file"`
	Name       string   `json:"name"`
	Counter    int64    `json:"counter"`
	ID         string   `json:"id"` // of the document
	Expires    string   `json:"expires,omitempty"`
	Bundles    int      `json:"bundles"`
	Versions   int      `json:"versions"`
	Added      []string `json:"added"` // ID@VERSION
	Removed    []string `json:"removed"`
	Key        string   `json:"key"`
	Signatures int      `json:"signatures"`
	Changed    bool     `json:"changed"`
	Allowed    bool     `json:"allowed"` // the policy believes it now
}

func (i bundleIndexed) Text(t *cli.Terminal) {
	what := fmt.Sprintf("%s  index:%s, issue %d: %s, %s", i.File, i.Name, i.Counter, fault.Count(int64(i.Bundles), "bundle"), fault.Count(int64(i.Versions), "version"))
	if !i.Changed {
		t.Note("unchanged  %s", what)
		return
	}
	t.Printf("wrote  %s\n", what)
	for _, name := range i.Added {
		t.Printf("  + %s\n", name)
	}
	for _, name := range i.Removed {
		t.Printf("  - %s\n", name)
	}
}

// An indexing is one run of rye bundle index.
type indexing struct {
	*bundleIndexRun
	bundles *places.Workspace
	v       *spaces.Vouching
	key     trusts.Signer
	dir     string
	file    string
	expires time.Time
}

func (c *bundleIndexRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if c.Name != "" && portable.CheckID(c.Name) != nil {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--name is %q, which is no id", c.Name), Why: []string{portable.CheckID(c.Name).Error()}}
	}
	dir := a.Absolute(cli.Setting{Value: c.Dir})
	if dir.Err != nil {
		return nil, dir.Err
	}
	x := &indexing{bundleIndexRun: c, dir: dir.Value, file: filepath.Join(dir.Value, index.File)}
	var err error
	if x.expires, err = trusts.ParseDate("--expires", c.Expires); err != nil {
		return nil, err
	}
	if !x.expires.IsZero() && !x.expires.After(a.Clock()) {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("--expires is %q, which is past: nobody would take such an index", c.Expires)}
	}
	switch fi, err := os.Stat(dir.Value); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fault.Error{Code: fault.Files, Exit: fault.ExitMissing, Err: err, Text: fmt.Sprintf("there is no directory %q", c.Dir), Details: map[string]any{"path": dir.Value}}
	case err == nil && !fi.IsDir():
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q is a file, and an index is made of the archives in a directory", c.Dir)}
	}
	if x.bundles, err = places.OpenWorkspace(a); err != nil {
		return nil, err
	}
	defer x.bundles.Close()
	if x.v, err = spaces.OpenVouching(a); err != nil {
		return nil, err
	}
	if x.key, err = trusts.SigningKey(ctx, a, c.Key); err != nil {
		return nil, err
	}
	entries, err := x.archives(ctx)
	if err != nil {
		return nil, err
	}
	unlock, err := trust.LockPolicy(ctx, x.file)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return x.issue(ctx, entries)
}

// archives verifies what is in the directory, and returns what the index is to say of it.
func (x *indexing) archives(ctx context.Context) ([]index.Entry, error) {
	files, err := x.find()
	if err != nil {
		return nil, err
	}
	p := x.bundles.App.Progress("verifying", 0)
	defer p.Done()
	type refusal struct {
		File     string           `json:"file"`
		Failures []bundle.Finding `json:"failures"`
	}
	var all []index.Entry
	var refused []refusal
	var codes []fault.Code
	no := &fault.Error{}
	at := map[string]index.Entry{}
	for _, file := range files {
		e, failures, err := x.archive(ctx, file, p)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", file, err)
		}
		if len(failures) > 0 {
			r := refusal{File: file}
			for _, f := range failures {
				l := f.Finding()
				r.Failures, codes = append(r.Failures, l), append(codes, l.Code)
				if len(no.Why) < fault.MaxLines {
					no.Why = append(no.Why, file+": "+l.Text())
				}
			}
			refused = append(refused, r)
			continue
		}
		name := e.ID + "@" + e.Version
		switch twin, twice := at[name]; {
		case twice && twin.Manifest == e.Manifest:
			x.bundles.App.Term.Note("%q is the same bundle as %q, and isn't listed again", file, twin.Archive)
		case twice:
			return nil, &fault.Error{Code: fault.Ambiguous, Text: fmt.Sprintf("there are two bundles %q", name),
				Why:     []string{fmt.Sprintf("%s  %s", twin.Manifest, twin.Archive), fmt.Sprintf("%s  %s", e.Manifest, e.Archive)},
				Details: map[string]any{"bundle": name, "archives": []string{twin.Archive, e.Archive}}}
		default:
			at[name] = e
			all = append(all, e)
		}
	}
	if len(refused) > 0 {
		no.Code, no.Details = fault.Gravest(codes), map[string]any{"refused": refused}
		no.Text = fmt.Sprintf("%d of %s refused, and nothing was written", len(refused), fault.Count(int64(len(files)), "archive"))
		no.Hint = []string{"rye bundle verify " + fault.Quote(filepath.Join(x.Dir, filepath.FromSlash(refused[0].File)))}
		return nil, no
	}
	return all, nil
}

// find returns the archives of the directory, sorted, as an index writes them.
func (x *indexing) find() (files []string, err error) {
	err = filepath.WalkDir(x.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == x.dir {
			return err
		}
		switch {
		case strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !strings.HasSuffix(d.Name(), ".tar.zst") && !strings.HasSuffix(d.Name(), ".rye"):
			return nil
		}
		rel, err := filepath.Rel(x.dir, path)
		if err != nil {
			return err
		}
		file := filepath.ToSlash(rel)
		if !d.Type().IsRegular() {
			x.bundles.App.Term.Warn("%q is no file, and isn't listed", file)
			return nil
		}
		if err := portable.Check(file); err != nil {
			return &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("%q can't be listed", file), Why: []string{err.Error()}}
		}
		files = append(files, file)
		return nil
	})
	slices.Sort(files)
	return files, err
}

// archive verifies one archive.
func (x *indexing) archive(ctx context.Context, file string, p *cli.Progress) (e index.Entry, failures []*bundle.Failure, err error) {
	path := filepath.Join(x.dir, filepath.FromSlash(file))
	l, err := x.bundles.Finder(ctx).At(path)
	if err != nil {
		return e, nil, err
	}
	o := x.v.Options
	o.Closed = x.Closed
	if o.Below, o.Needs, err = l.Below(ctx); err != nil {
		return e, nil, err
	}
	r, err := bundle.Verify(ctx, l.Source(p.Counted), o)
	if err != nil || !r.OK() {
		if err == nil {
			failures = r.Failures
		}
		return e, failures, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return e, nil, err
	}
	e = index.Entry{ID: r.BundleID, Version: r.Version, Manifest: r.ID, Archive: file, Size: info.Size()}
	for _, need := range r.Requires {
		q, err := index.NewRequire(need.BundleID, need.Version)
		if err != nil {
			return e, []*bundle.Failure{{Check: bundle.CheckManifest, Err: err}}, nil
		}
		e.Requires = append(e.Requires, q)
	}
	return e, nil, nil
}

// issue writes the index if it says something else than the one that is there, or if this key hasn't signed it.
func (x *indexing) issue(ctx context.Context, entries []index.Entry) (cli.Answer, error) {
	a := x.bundles.App
	old, err := x.last()
	if err != nil {
		return nil, err
	}
	if old == nil && x.Name == "" {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("there is no index in %q yet, and a new one needs a name", x.Dir),
			Why: []string{"policies say by its name who may sign it"}, Hint: []string{"rye bundle index " + fault.Quote(x.Dir) + " --name acme/bundles"}}
	}
	next := &index.Index{Label: x.Name, Counter: 1, Expires: x.expires, Entries: entries}
	if old != nil {
		next.Label, next.Counter = old.Label, old.Counter
		if x.Expires == "" {
			next.Expires = old.Expires
		}
		if next.Entries, err = kept(old, entries); err != nil {
			return nil, err
		}
	}
	seen, err := x.seen(next.Label)
	if err != nil {
		return nil, err
	}
	body, doc, err := index.Append(nil, next)
	if err != nil {
		return nil, err
	}
	same := old != nil && doc.ID == old.ID && seen <= old.Counter
	if same {
		err = doc.Merge(x.v.Options.Trust.Find, old.Signatures)
	} else if old != nil || seen > 0 {
		next.Counter = max(next.Counter, seen) + 1
		body, doc, err = index.Append(nil, next)
	}
	if err == nil {
		err = doc.Sign(x.key.Private, a.Clock().UTC().Truncate(time.Second))
	}
	if err != nil {
		return nil, err
	}
	ans := x.answer(old, doc)
	if ans.Changed = !same || !slices.Equal(doc.Signatures, old.Signatures); ans.Changed {
		if err := x.write(ctx, old == nil, manifest.Join(nil, body, doc.Signatures), doc); err != nil {
			return nil, err
		}
	}
	e, err := x.v.Options.Trust.ExamineDocument(&doc.Document, doc.Expires, policy.ToUse)
	_, ended := errors.AsType[*exam.ExpiredError](err)
	switch {
	case ended:
		a.Term.Warn("%s", err)
	case err != nil:
		return nil, err
	case !e.Decision.Allowed:
		a.Term.Warn("that is not enough: %q %s", doc.Name, e.Decision.Reason())
	}
	ans.Allowed = err == nil && e.Decision.Allowed
	return ans, nil
}

// last reads the index that is there; nil if there is none. What it says is carried on, so that it must be one that the
// policy believes, though it may be past its end, or one that this key has signed.
func (x *indexing) last() (*index.Index, error) {
	text, err := osfile.ReadSmall(x.file, index.MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	old, err := index.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", x.file, err)
	}
	if x.Name != "" && x.Name != old.Label {
		return nil, &fault.Error{Code: fault.Validation, Text: fmt.Sprintf("the index in %q is %q, and an index keeps its name", x.Dir, old.Label),
			Why: []string{"whoever has seen it would refuse another one in its place"}}
	}
	own := x.key.Public()
	if by, err := old.Check(func(f key.Fingerprint) (key.Public, bool) { return own, f == own.Fingerprint() }); err == nil && len(by) > 0 {
		return old, nil
	}
	e, err := x.v.Options.Trust.ExamineDocument(&old.Document, time.Time{}, policy.ToUse)
	if err == nil && !e.Decision.Allowed {
		err = &bundle.NotAdmittedError{Name: old.Name, Decision: e.Decision}
	}
	if err != nil {
		return nil, fmt.Errorf("%q, whose count would go on: %w", x.file, err)
	}
	return old, nil
}

// kept adds to the entries those of an index that stand elsewhere than beside it, and wants none to have become another.
func kept(old *index.Index, entries []index.Entry) ([]index.Entry, error) {
	has := map[string]bool{}
	for i := range entries {
		e := &entries[i]
		has[e.ID+"@"+e.Version] = true
		if was := old.Find(e.ID, e.Version); was != nil && was.Manifest != e.Manifest {
			return nil, &fault.Error{Code: fault.Rollback, Text: fmt.Sprintf("%q is listed already, and was another bundle", e.ID+"@"+e.Version),
				Why:     []string{"expected  " + was.Manifest.String(), "found     " + e.Manifest.String() + "  " + e.Archive, "whoever uses it would be refused: what is changed needs another version"},
				Details: map[string]any{"reason": rollback.Other, "bundle": e.ID + "@" + e.Version, "expected": was.Manifest.String(), "found": e.Manifest.String()}}
		}
	}
	for i := range old.Entries {
		if e := &old.Entries[i]; e.Remote() && !has[e.ID+"@"+e.Version] {
			entries = append(entries, *e)
		}
	}
	return entries, nil
}

// seen is the count of the last index of this name that was here; 0 if none is remembered. It goes on although the file
// was lost, or an older one was put in its place: whoever has seen a later one wouldn't take it.
func (x *indexing) seen(label string) (int64, error) {
	all, err := x.journal().Seen()
	if err != nil {
		return 0, err
	}
	for _, s := range all {
		if s.Source == x.dir && s.Name == "index:"+label && s.ByName {
			return strconv.ParseInt(s.Position, 10, 64)
		}
	}
	return 0, nil
}

func (x *indexing) journal() *rollback.Journal { return places.Lists(x.bundles.App).Journal() }

// write puts the index in its place. Another process that was the first to make one keeps its own.
func (x *indexing) write(ctx context.Context, first bool, text []byte, doc *index.Index) error {
	now := x.bundles.App.Clock()
	steps := []rollback.Step{{Source: x.dir, Name: doc.Name, Position: strconv.FormatInt(doc.Counter, 10), ID: doc.ID, ByName: true, At: now}}
	for i := range doc.Entries {
		// What was listed, and no longer is, doesn't come back as another bundle either.
		e := &doc.Entries[i]
		steps = append(steps, rollback.Step{Source: x.dir, Name: "bundle:" + e.ID, Position: e.Version, ID: e.Manifest, At: now})
	}
	if err := x.journal().Record(ctx, steps...); err != nil {
		return err
	}
	err := osfile.WriteFile(x.file, 0o644, first, osfile.BytesOf(text))
	if errors.Is(err, os.ErrExist) {
		err = &fault.Error{Code: fault.Conflict, Text: fmt.Sprintf("another process has made %q meanwhile, and it is left as it is", x.file)}
	}
	return err
}

func (x *indexing) answer(old, doc *index.Index) bundleIndexed {
	ans := bundleIndexed{File: filepath.Join(x.Dir, index.File), Name: doc.Label, Counter: doc.Counter, ID: doc.ID.String(), Expires: yamltree.DateText(doc.Expires),
		Versions: len(doc.Entries), Added: []string{}, Removed: []string{}, Key: x.key.Public().Fingerprint().String(), Signatures: len(doc.Signatures)}
	if old == nil {
		old = &index.Index{}
	}
	for i := range doc.Entries {
		e := &doc.Entries[i]
		if i == 0 || doc.Entries[i-1].ID != e.ID {
			ans.Bundles++
		}
		if old.Find(e.ID, e.Version) == nil {
			ans.Added = append(ans.Added, e.ID+"@"+e.Version)
		}
	}
	for i := range old.Entries {
		if e := &old.Entries[i]; doc.Find(e.ID, e.Version) == nil {
			ans.Removed = append(ans.Removed, e.ID+"@"+e.Version)
		}
	}
	return ans
}
