// Package clients compares exported skills with the lock: it computes the files that a client gets of an item, and
// checks whether the client's folder still has them.
//
// A client gets only pinned items, admitted by the policy as for a call. Package client decides where they go, and
// keeps the list of written files.
package clients

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/client"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/policy"
)

// Pins has the pinned items of a lock.
type Pins struct {
	resolver ai.Resolver
	admit    *ai.Admitter
}

// Open opens the pins of an open lock without a merge conflict.
func Open(ctx context.Context, lock *workspace.Lock) (*Pins, error) {
	err := lock.NeedLock()
	if err != nil {
		return nil, err
	}
	if lock.Trust, err = lock.Policy(); err != nil {
		return nil, err
	}
	set, err := lock.Set(ctx)
	if err != nil {
		return nil, err
	}
	lock.AddBundles(set)
	asked := lock.Asked(ctx, lock.Dir)
	view, err := set.View(ctx, asked, lock.Trust.Root.Side.Policy.MayOverride)
	if err != nil {
		return nil, err
	}
	r := set.Resolver(view)
	return &Pins{r, ai.NewAdmitter(r, set.Examiner(asked))}, nil
}

// Files returns the files that a client gets of a pinned item.
func (p *Pins) Files(ctx context.Context, ref model.Ref, client client.Client) ([]skill.File, error) {
	it, err := p.resolver.Resolve(ctx, ref, nil)
	if err != nil {
		return nil, err
	}
	if it.Model.Directive != nil {
		if err := p.admit.Require(ctx, it, policy.ToUse); err != nil {
			return nil, err
		}
		return client.DirectiveFiles(Directive(it)), nil
	}
	name, files, err := Skill(ctx, p.admit, it, policy.ToUse)
	if err != nil {
		return nil, err
	}
	return client.SkillFiles(name, files), nil
}

// Item returns a pinned item that the policy admits for use.
func (p *Pins) Item(ctx context.Context, ref model.Ref) (*ai.Item, error) {
	it, err := p.resolver.Resolve(ctx, ref, nil)
	if err != nil {
		return nil, err
	}
	return it, p.admit.Require(ctx, it, policy.ToUse)
}

// Skill returns the files of a skill as they were before its import, or those generated from a directive. The policy
// must admit the item for the purpose.
func Skill(ctx context.Context, admit *ai.Admitter, it *ai.Item, purpose policy.Purpose) (name string,
	files []skill.File, err error) {
	if it.Model.Directive != nil {
		if err := admit.Require(ctx, it, purpose); err != nil {
			return "", nil, err
		}
		return skill.Slug(it.Ref), Directive(it).Skill(), nil
	}
	name, found, err := Imported(ctx, admit, it, purpose)
	for _, f := range found {
		b, err := f.Read()
		if err != nil {
			return "", nil, err
		}
		files = append(files, skill.File{Path: f.Path, Exec: f.exec, Bytes: b})
	}
	return name, files, err
}

// A File is one file of an imported skill, in the space of its item.
type File struct {
	Path   string // in the skill
	exec   bool
	from   fs.FS
	at     string
	digest cas.Digest
}

// Read returns the bytes that were admitted; other bytes are an error.
func (f *File) Read() ([]byte, error) {
	b, err := fs.ReadFile(f.from, f.at)
	if err == nil && cas.Sum(b) != f.digest {
		err = fault.New(fault.Conflict, "%q changed while it was read", f.at)
	}
	return b, err
}

// Imported returns the files of the tool that rye import skill makes of a skill, as they were before the import. The
// policy must admit the tool for the purpose.
func Imported(ctx context.Context, admit *ai.Admitter, it *ai.Item, purpose policy.Purpose) (name string, files []File,
	err error) {
	found, err := admit.Admit(ctx, it, purpose)
	if err != nil {
		return "", nil, err
	}
	if !found.Decision.Allowed {
		return "", nil, ai.NotAdmitted(it.Ref, it.Path, found.Decision)
	}
	name, ok := skill.NameOf(it.Ref)
	if !ok || it.Model.Tool == nil || found.Tree == nil {
		return "", nil, notSkill(it.Ref)
	}
	anchor, err := admit.Anchor(ctx, it)
	if err != nil {
		return "", nil, err
	}
	own := strings.TrimPrefix(path.Join(path.Dir(it.Path), skill.Dir)+"/", anchor.Dir+"/")
	for _, file := range found.Tree.Files {
		if rel, ok := strings.CutPrefix(file.Path, own); ok {
			files = append(files, File{Path: rel, exec: file.Mode == cas.Exec, from: it.Space.FS,
				at: path.Join(anchor.Dir, file.Path), digest: file.Raw})
		}
	}
	if len(files) == 0 {
		return "", nil, notSkill(it.Ref)
	}
	return name, files, nil
}

func notSkill(ref model.Ref) error {
	return fault.New(fault.Validation, "%s is not a skill", ref).On("ref", ref.String()).
		Because("a skill is a directive, or the tool that rye import skill made").Try("rye docs skills")
}

// Directive returns the content of a directive that becomes a command or a skill.
func Directive(it *ai.Item) *skill.Directive {
	d := &skill.Directive{Ref: it.Ref, Version: it.Model.Version, Description: it.Model.Description,
		Body: it.Model.Body}
	for _, in := range it.Model.Directive.Inputs {
		d.Inputs = append(d.Inputs, skill.Input{Name: in.Name, Description: in.Description, Required: in.Required})
	}
	return d
}

// A Report is the result of comparing clients' folders with the lock.
type Report struct {
	Items       int                 `json:"items"`
	Files       int                 `json:"files"`
	Differences []client.Difference `json:"differences"`
}

// Verify compares all exported files in the folders of clients with the lock.
func Verify(ctx context.Context, l *workspace.Lock) (*Report, error) {
	place, err := client.Open(l.Dir)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	report := &Report{Files: len(place.In), Differences: []client.Difference{}}
	if len(place.In) == 0 {
		return report, nil
	}
	pins, err := Open(ctx, l)
	if err != nil {
		return nil, err
	}
	for _, pair := range place.In.Pairs() {
		want, err := pins.want(ctx, pair)
		if err != nil {
			return nil, err
		}
		more, err := place.Compare(pair, want)
		if err != nil {
			return nil, err
		}
		report.Items++
		report.Differences = append(report.Differences, more...)
	}
	return report, nil
}

// want returns the files that a client would get of an item, or nil if it isn't locked.
func (p *Pins) want(ctx context.Context, pair client.Pair) ([]skill.File, error) {
	c, err := client.ByName(pair.Client)
	if err != nil {
		return nil, err
	}
	ref, err := model.ParseRef(pair.Ref)
	if err != nil {
		return nil, err
	}
	files, err := p.Files(ctx, ref, c)
	if _, ok := errors.AsType[*lock.NotLockedError](err); ok {
		return nil, nil
	}
	return files, err
}

// Fault returns the error for a report with differences, or nil.
func (r *Report) Fault() *fault.Error {
	if len(r.Differences) == 0 {
		return nil
	}
	failure := fault.New(fault.LockMismatch, "%s in the folders of clients: different from the lock",
		fault.Count(int64(len(r.Differences)), "file")).Answer()
	seen := map[string]bool{}
	for i, d := range r.Differences {
		if i < fault.MaxLines {
			failure.Because(d.File + ": " + d.Why)
		}
		for _, hint := range d.Hint() {
			if !seen[hint] && len(seen) < 5 {
				seen[hint] = true
				failure.Try(hint)
			}
		}
	}
	return failure
}
