package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/archive"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Proof is what is known about a bundle in the log of a registry.
type Proof struct {
	*registry.Proven        // nil if nothing is proven
	Unchecked        string `json:"unchecked,omitempty"` // why the proof at hand was not checked
}

// Logs returns the logs of the project's registries and of the witness policies, and what is remembered of them.
func (w *Workspace) Logs() (*registry.Logs, error) {
	dotAI := ""
	var from []ryeyaml.Registry
	if w.Root.Root != "" {
		dotAI = w.Root.DotAI()
	}
	if w.Root.Root != "" && w.Root.Marker == MarkerFile {
		file, err := w.Root.File(w.Version)
		if err != nil {
			return nil, err
		}
		from = file.Registries
	}
	return w.logs(from, dotAI)
}

// Logs returns the logs of the registries that rye.yaml names now.
func (l *Lock) Logs() (*registry.Logs, error) { return l.logs(l.Yaml.Registries, l.DotAI) }

func (w *Workspace) logs(from []ryeyaml.Registry, dotAI string) (*registry.Logs, error) {
	policies, err := w.witnesses(dotAI)
	return &registry.Logs{Registries: from, Policies: policies, Journal: w.Journal(), Now: w.Now}, err
}

// Proof checks the proof of a verified bundle: that of the file beside its archive, or else a kept one. A proof that
// doesn't fit is an error; one of a log whose key stands nowhere is not checked. archive is the path of the archive,
// or "" if there is no file. Without any proof the answer is nil.
func (w *Workspace) Proof(ctx context.Context, of tlog.Release, archive string) (*Proof, error) {
	logs, err := w.Logs()
	if err != nil {
		return nil, err
	}
	beside, err := ReadProof(archive)
	if err != nil {
		return nil, err
	}
	if beside != nil {
		return check(ctx, logs, beside, of, archive+registry.ProofSuffix)
	}
	kept, err := w.keptProofs(ctx, of.Manifest)
	if err != nil {
		return nil, err
	}
	var unchecked *Proof
	var wrong error
	for _, proof := range kept {
		if why := unfit(logs, proof, of); why != "" {
			unchecked = &Proof{Unchecked: why}
			continue
		}
		found, err := check(ctx, logs, proof, of, "")
		switch {
		case err != nil:
			wrong = cmp.Or(wrong, err)
		case found.Proven != nil:
			return found, nil
		default:
			unchecked = found
		}
	}
	if wrong != nil {
		return nil, wrong
	}
	return unchecked, nil
}

// unfit returns why a kept proof isn't about what is at hand: another archive of the bundle, such as one with more
// signatures, or a log that the project doesn't take the bundle from. It was kept for another use.
func unfit(logs *registry.Logs, proof *tlog.Proof, of tlog.Release) string {
	if _, _, err := logs.Key(proof.Origin(), of.Bundle); err != nil {
		return fault.Of(err).Text
	}
	entry, err := tlog.ParseEntry(proof.Entry)
	if err != nil || of.Archive.IsZero() {
		return ""
	}
	for _, release := range entry.All() {
		if release.Manifest == of.Manifest && release.Archive != of.Archive {
			return "the kept proof is of another archive of this bundle"
		}
	}
	return ""
}

// check checks one proof. file is where it is; "" for a kept one.
func check(ctx context.Context, logs *registry.Logs, proof *tlog.Proof, of tlog.Release, file string) (
	*Proof, error) {
	proven, known, err := logs.Check(ctx, proof, of)
	switch {
	case err != nil && file != "":
		return nil, fault.Wrap(err, "%q: %s", file, fault.Of(err).Text).On("path", file)
	case err != nil:
		return nil, err
	case !known:
		return &Proof{Unchecked: fmt.Sprintf("no key of the log %q is known", fault.Clip(proof.Origin(), 200))}, nil
	}
	return &Proof{Proven: proven}, nil
}

// ReadProof reads the proof beside an archive; nil without one.
func ReadProof(archive string) (*tlog.Proof, error) {
	if archive == "" {
		return nil, nil
	}
	file := archive + registry.ProofSuffix
	text, err := osfile.ReadIfThere("the proof of inclusion", file, tlog.MaxProof)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	proof, err := tlog.ParseProof(text)
	if err != nil {
		return nil, fault.Wrap(err, "%q: %s", file, fault.Of(err).Text).On("path", file)
	}
	return proof, nil
}

// Beside returns the proof beside an archive after checking it, before anything of the archive is used; nil without
// one.
func (w *Workspace) Beside(ctx context.Context, path string) (*tlog.Proof, error) {
	proof, err := ReadProof(path)
	if proof == nil {
		return nil, err
	}
	file, err := osfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	sum := cas.NewHasher()
	read := io.TeeReader(cas.Until(ctx, file), sum)
	head, err := archive.ReadHead(ctx, read)
	if err != nil {
		return nil, nil // what is wrong with the archive, its reader says
	}
	if _, err := io.Copy(io.Discard, read); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	logs, err := w.Logs()
	if err != nil {
		return nil, err
	}
	_, err = check(ctx, logs, proof, tlog.Release{Bundle: head.List.BundleID, Version: head.List.Version,
		Manifest: head.List.ID, Archive: sum.Digest(), Size: info.Size()}, path+registry.ProofSuffix)
	return proof, err
}

// TakeProof keeps the proof of a bundle that the store has, unless it has one of that log which isn't known to be
// false.
func (w *Workspace) TakeProof(ctx context.Context, of tlog.Release, proof *tlog.Proof) error {
	logs, err := w.Logs()
	if err == nil {
		err = logs.Take(ctx, proof, of)
	}
	if err != nil {
		return err
	}
	store, err := w.OpenStore(true)
	if err != nil {
		return err
	}
	kept, err := bundle.ReadProof(ctx, store, store, of.Manifest, proof.Origin())
	if err == nil && logs.Refuses(ctx, kept, of) == nil {
		return nil
	}
	return install.KeepProof(ctx, store, of.Manifest, proof)
}

// Proofs returns the proofs of a bundle in the project's vendor directory and in the store that aren't known to be
// false.
func (w *Workspace) Proofs(ctx context.Context, of tlog.Release) (good []*tlog.Proof, err error) {
	logs, err := w.Logs()
	if err != nil {
		return nil, err
	}
	all, err := w.keptProofs(ctx, of.Manifest)
	if err != nil {
		return nil, err
	}
	for _, proof := range all {
		again := slices.ContainsFunc(good, func(p *tlog.Proof) bool { return p.Origin() == proof.Origin() })
		if !again && unfit(logs, proof, of) == "" && logs.Refuses(ctx, proof, of) == nil {
			good = append(good, proof)
		}
	}
	return good, nil
}

// keptProofs returns the proofs of a bundle in the project's vendor directory and in the store.
func (w *Workspace) keptProofs(ctx context.Context, id cas.Digest) (all []*tlog.Proof, err error) {
	if w.Root.Root != "" {
		l := w.LockIn(w.Root.Root, w.Root.DotAI())
		defer l.Close()
		v, err := l.Vendored()
		if err != nil {
			return nil, err
		}
		proof, err := VendoredProof(v, id)
		if err != nil {
			return nil, fault.Wrap(err, "%q: %s", w.Show(l.VendorDir()), fault.Of(err).Text)
		}
		if proof != nil {
			all = append(all, proof)
		}
	}
	store, err := w.OpenStore(false)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.Detail("the store", err)
		}
		return all, nil
	}
	kept, err := install.Proofs(ctx, store, id)
	return append(all, kept...), err
}

// VendoredProof reads the proof of a bundle in a vendor directory, which may be nil; nil without a proof.
func VendoredProof(v *vendor.Vendor, id cas.Digest) (*tlog.Proof, error) {
	if v == nil {
		return nil, nil
	}
	text, err := v.Proof(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return tlog.ParseProof(text)
}
