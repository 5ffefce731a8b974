package restore

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
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/workspace"
)

// A VendorResult is the state of .ai/vendor after Vendor, or as found by CheckVendor.
type VendorResult struct {
	Dir      string   `json:"dir"`
	Files    int      `json:"files"`
	Objects  int      `json:"objects"`
	Bytes    int64    `json:"bytes"`
	Written  int      `json:"written"` // files that are new
	Removed  int      `json:"removed"` // files that are no longer needed
	Checked  bool     `json:"checked"`
	Problems []string `json:"problems"`
	Foreign  []string `json:"-"` // files that rye didn't write and leaves alone
}

// Vendor writes all objects of a lock from the store, which must have them, into .ai/vendor. fetched provides the
// list of objects if Fetch has just run.
func Vendor(ctx context.Context, lock *workspace.Lock, fetched FetchResult) (*VendorResult, error) {
	all := fetched.all
	if all == nil {
		set, err := Stored(ctx, lock)
		if err != nil {
			return nil, err
		}
		if all, err = set.Objects(ctx); err != nil {
			return nil, err
		}
	}
	objects := make([]vendor.Object, len(all))
	for i := range all {
		objects[i] = vendored(&all[i])
	}
	result, err := vendor.Write(ctx, lock.VendorDir(), objects, lock.DiskStore())
	if in, ok := errors.AsType[*vendor.Error](err); ok {
		path := filepath.Join(lock.VendorDir(), in.File)
		if isThere, _ := osfile.IsDir(path); isThere {
			f, at := fault.Of(err), fault.Quote(lock.Show(path))
			f.Hint = []string{"mv " + at + " " + at + ".bad", "rye vendor"}
			return nil, f
		}
	}
	if at, ok := errors.AsType[*fs.PathError](err); ok && !filepath.IsAbs(at.Path) {
		return nil, &fs.PathError{Op: osfile.PlainOp(at.Op), Path: filepath.Join(lock.VendorDir(), at.Path),
			Err: at.Err}
	}
	if err != nil {
		return nil, err
	}
	ans := &VendorResult{Dir: lock.VendorDir(), Files: result.Files, Objects: result.Objects, Bytes: result.Bytes,
		Written: result.Written,
		Removed: result.Removed, Problems: []string{}}
	return ans, vendorProofs(ctx, lock, ans)
}

// wanted returns all objects of a lock with the signatures of its manifests, and the item that needs each.
func wanted(ctx context.Context, l *workspace.Lock, from lock.Source) ([]vendor.Object, map[cas.ID]string, error) {
	set, err := setOf(ctx, l, from)
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
		out[i] = vendored(&o)
	}
	return out, by, nil
}

func vendored(o *lock.Object) vendor.Object {
	return vendor.Object{ID: o.ID, Size: o.Size, Signatures: o.Signatures}
}

// CheckVendor compares .ai/vendor with what Vendor would write. It uses only the directory. If they differ, it
// returns both a result and an error.
func CheckVendor(ctx context.Context, locked *workspace.Lock) (*VendorResult, error) {
	ans := &VendorResult{Dir: locked.VendorDir(), Checked: true, Problems: []string{}}
	fail := func(f *fault.Error) (*VendorResult, error) {
		f.Hint = []string{"rye vendor"}
		switch f.Code {
		case fault.LockMismatch:
			return ans, f.Answer()
		case fault.Integrity:
			f.Hint = append(f.Hint, "git restore "+fault.Quote(locked.Show(locked.VendorDir())))
		}
		return ans, f.Asked()
	}
	v, err := locked.Vendored()
	if err != nil {
		return nil, err
	}
	if v == nil {
		return fail(fault.New(fault.NotFound, "nothing is vendored in %q", locked.VendorDir()).From(fs.ErrNotExist))
	}
	objects, by, err := wanted(ctx, locked, v)
	if refused, ok := errors.AsType[*lock.RefusedError](err); ok {
		for _, p := range refused.Problems {
			ans.Problems = append(ans.Problems, p.Error())
		}
		f := fault.Of(err)
		f.Why = nil // each problem is a line of the answer, and the store wasn't used
		if errors.Is(err, cas.ErrDamaged) {
			f = fault.New(fault.Integrity, ".ai/vendor does not match the lock: %s",
				fault.Count(int64(len(ans.Problems)), "problem"))
		}
		return fail(f)
	}
	if err != nil {
		return nil, err
	}
	report, err := vendor.Check(ctx, locked.VendorDir(), objects)
	if err != nil {
		return nil, err
	}
	for _, d := range report.Damaged {
		ans.Problems = append(ans.Problems, "damaged: "+d.Error())
	}
	for _, id := range report.Missing {
		ans.Problems = append(ans.Problems, fmt.Sprintf("missing: %s, which %s needs", id, by[id]))
	}
	for _, id := range report.Superfluous {
		ans.Problems = append(ans.Problems, "not needed: "+id.String())
	}
	for _, name := range report.Stale {
		ans.Problems = append(ans.Problems, "out of date or not in the lock: "+name)
	}
	for _, name := range report.Foreign {
		if slices.Contains(report.Stale, name) { // such as a link in place of a file, which Vendor replaces
			continue
		}
		ans.Foreign = append(ans.Foreign, filepath.Join(locked.VendorDir(), name))
	}
	ans.Files, ans.Objects, ans.Bytes = report.Files, report.Objects, report.Bytes
	wrong, err := checkProofs(ctx, locked, v, report.Proofs, ans)
	if err != nil {
		return nil, err
	}
	if wrong != nil && len(ans.Problems) == 1 {
		return fail(fault.Of(wrong))
	}
	if wrong != nil || len(report.Damaged)+len(report.Missing) > 0 {
		return fail(fault.New(fault.Integrity, ".ai/vendor does not match the lock: %s",
			fault.Count(int64(len(ans.Problems)), "problem")))
	}
	if len(ans.Problems) > 0 {
		return fail(fault.New(fault.LockMismatch, "rye vendor would change %s",
			fault.Count(int64(len(ans.Problems)), "thing")))
	}
	return ans, nil
}
