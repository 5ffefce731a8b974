package locks

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/places"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/workspace"
)

func VendorCommand() cli.Command {
	return cli.Command{
		Path: "vendor", Quiet: true, Group: "lock", Help: "Copy everything locked into .ai/vendor, to be committed.",
		More: "A clone with it needs no store, no network and no home: a policy to trust by is enough. There are few files; what has not changed is not " +
			"touched, and two branches that both vendored merge without a conflict. What isn't here yet is fetched first, as rye fetch does it. " +
			"--check changes nothing, and exits with 1 if something is missing, damaged or too much.\n\nExamples:\n\n    rye vendor\n    rye vendor --check\n" +
			"    git add .ai/vendor",
		New: func() cli.Runner { return new(VendorRun) }, Schema: "vendor/1", Output: VendorAnswer{},
	}
}

type VendorRun struct {
	Check bool `help:"Change nothing; exit with 1 if out of date."`
}

type VendorAnswer struct {
	Dir      string   `json:"dir"`
	Files    int      `json:"files"`
	Objects  int      `json:"objects"`
	Bytes    int64    `json:"bytes"`
	Written  int      `json:"written"` // files that are new
	Removed  int      `json:"removed"` // files that nothing needs any more
	Checked  bool     `json:"checked"`
	Problems []string `json:"problems"`
	failed   bool
}

func (v VendorAnswer) Text(t *cli.Terminal) {
	for _, p := range v.Problems {
		t.Printf("%s\n", p)
	}
	if v.failed {
		return
	}
	verb := "unchanged"
	switch {
	case v.Checked:
		verb = "complete"
	case v.Written > 0 || v.Removed > 0:
		verb = "vendored"
	}
	t.Printf("%s  %s in %s, %s\n", t.Stdout.Paint(cli.RoleGood, verb, t.Ascii), fault.Count(int64(v.Objects), "object"), fault.Count(int64(v.Files), "file"),
		cli.ByteSize(float64(v.Bytes)))
}

func (c *VendorRun) Run(ctx context.Context, a *cli.App) (cli.Answer, error) {
	if !c.Check {
		unlock, err := places.Alone(ctx, a, false)
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	l, err := places.OpenLock(a, false)
	if err == nil {
		defer l.Close()
		err = l.NeedLock()
	}
	if f, ok := fault.Find(err); ok && c.Check && (f.Code == fault.NotLocked || f.Code == fault.LockMismatch) {
		return nil, f.Asked() // as rye lock --check answers
	}
	if err != nil {
		return nil, err
	}
	if c.Check {
		return c.CheckIn(ctx, l)
	}
	if err := l.Open(); err != nil {
		return nil, err
	}
	if err := Fetch(ctx, l, new(FetchAnswer)); err != nil {
		return nil, err
	}
	objects, _, err := wanted(ctx, l, l.DiskStore())
	if err != nil {
		return nil, err
	}
	p := l.App.Progress("vendoring", 0)
	defer p.Done()
	r, err := vendor.Write(ctx, l.VendorDir(), objects, l.DiskStore())
	if in, ok := errors.AsType[*vendor.Error](err); ok {
		path := filepath.Join(l.VendorDir(), in.File)
		if isThere, _ := osfile.IsDir(path); isThere {
			f, at := fault.Of(err), fault.Quote(l.App.FromHere(path))
			f.Hint = []string{"mv " + at + " " + at + ".bad", "rye vendor"}
			return nil, f
		}
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && !filepath.IsAbs(at.Path) {
		return nil, &fs.PathError{Op: osfile.PlainOp(at.Op), Path: filepath.Join(l.VendorDir(), at.Path), Err: at.Err}
	}
	if err != nil {
		return nil, err
	}
	return VendorAnswer{Dir: l.VendorDir(), Files: r.Files, Objects: r.Objects, Bytes: r.Bytes, Written: r.Written, Removed: r.Removed, Problems: []string{}}, nil
}

// wanted is what is to be vendored: all objects of the lock, with the signatures of the manifests; and who needs which.
func wanted(ctx context.Context, l *places.Lock, from lock.Source) ([]vendor.Object, map[cas.ID]string, error) {
	set, err := lock.NewSet(ctx, l.Old, l.Id(), workspace.SetOptions(from))
	if err != nil {
		return nil, nil, err
	}
	all, err := set.Objects(ctx)
	if err != nil {
		return nil, nil, err
	}
	out, by := make([]vendor.Object, len(all)), make(map[cas.ID]string, len(all))
	for i, o := range all {
		by[o.ID] = o.NeededBy
		out[i] = vendor.Object{ID: o.ID, Size: o.Size, Signatures: o.Signatures}
	}
	return out, by, nil
}

// CheckIn compares what is vendored with what would be. It needs nothing but the directory.
func (c *VendorRun) CheckIn(ctx context.Context, l *places.Lock) (cli.Answer, error) {
	ans := VendorAnswer{Dir: l.VendorDir(), Checked: true, Problems: []string{}}
	fail := func(f *fault.Error) (cli.Answer, error) {
		f.Hint, ans.failed = []string{"rye vendor"}, true
		if f.Code == fault.Integrity {
			f.Hint = append(f.Hint, "git restore "+fault.Quote(l.App.FromHere(l.VendorDir())))
		}
		return ans, f.Asked()
	}
	v, err := l.Vendored()
	if err != nil {
		return nil, err
	}
	if v == nil {
		return fail(&fault.Error{Code: fault.NotFound, Text: fmt.Sprintf("nothing is vendored in %q", l.VendorDir()), Err: fs.ErrNotExist})
	}
	objects, by, err := wanted(ctx, l, v)
	if refused, ok := errors.AsType[*lock.RefusedError](err); ok {
		for _, p := range refused.Problems {
			ans.Problems = append(ans.Problems, p.Error())
		}
		f := fault.Of(err)
		f.Why = nil // each problem is a line of the answer, and the store wasn't asked
		if errors.Is(err, cas.ErrDamaged) {
			f = &fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("what is vendored isn't what the lock names: %s", fault.Count(int64(len(ans.Problems)), "problem"))}
		}
		return fail(f)
	}
	if err != nil {
		return nil, err
	}
	r, err := vendor.Check(ctx, l.VendorDir(), objects)
	if err != nil {
		return nil, err
	}
	for _, d := range r.Damaged {
		ans.Problems = append(ans.Problems, "damaged: "+d.Error())
	}
	for _, id := range r.Missing {
		ans.Problems = append(ans.Problems, fmt.Sprintf("missing: %s, which %s needs", id, by[id]))
	}
	for _, id := range r.Superfluous {
		ans.Problems = append(ans.Problems, "not needed: "+id.String())
	}
	for _, name := range r.Stale {
		ans.Problems = append(ans.Problems, "would be written anew or removed: "+name)
	}
	for _, name := range r.Foreign {
		if slices.Contains(r.Stale, name) { // as a link where a file should be, which is replaced
			continue
		}
		l.App.Term.Warn("%s isn't rye's, and is left alone", filepath.Join(l.VendorDir(), name))
	}
	ans.Files, ans.Objects, ans.Bytes = r.Files, r.Objects, r.Bytes
	if len(r.Damaged)+len(r.Missing) > 0 {
		return fail(&fault.Error{Code: fault.Integrity, Text: fmt.Sprintf("what is vendored isn't what the lock names: %s", fault.Count(int64(len(ans.Problems)), "problem"))})
	}
	if len(ans.Problems) > 0 {
		return fail(&fault.Error{Code: fault.LockMismatch, Text: fmt.Sprintf("rye vendor would change %s", fault.Count(int64(len(ans.Problems)), "thing"))})
	}
	return ans, nil
}
