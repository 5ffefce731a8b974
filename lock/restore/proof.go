package restore

import (
	"context"
	"errors"
	"fmt"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/install"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	lockfile "github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/registry"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/lock/vendor"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/tlog"
)

// This file has the proofs of bundles that came from registries: each is kept with its bundle and lies beside it in
// .ai/vendor, and is checked wherever it is taken from.

// logged calls visit for each bundle of a lock that is in a log whose key is known.
func logged(l *workspace.Lock, visit func(logs *registry.Logs, line *lockfile.Bundle) error) error {
	var logs *registry.Logs
	for i := range l.Old.Bundles {
		line := &l.Old.Bundles[i]
		if line.Log == "" {
			continue
		}
		if logs == nil {
			var err error
			if logs, err = l.Logs(); err != nil {
				return err
			}
		}
		if _, known, err := logs.Key(line.Log, line.ID); err != nil || !known {
			continue // a lock without its rye.yaml, or of another one: nothing vouches for the log
		}
		if err := visit(logs, line); err != nil {
			return err
		}
	}
	return nil
}

// vendoredProof returns the proof of a locked bundle in .ai/vendor after checking it; nil without one.
func vendoredProof(ctx context.Context, l *workspace.Lock, v *vendor.Vendor, logs *registry.Logs,
	line *lockfile.Bundle) (*tlog.Proof, error) {
	proof, err := workspace.VendoredProof(v, line.Manifest)
	if proof == nil && err == nil {
		return nil, nil
	}
	if err == nil && (proof.Origin() != line.Log || proof.Index != line.Leaf) {
		err = fault.New(fault.Integrity, "it is of entry %d of the log %q, and rye.lock has entry %d of %q",
			proof.Index, fault.Clip(proof.Origin(), 200), line.Leaf, line.Log)
	}
	if err == nil {
		err = logs.Refuses(ctx, proof, tlog.Release{Bundle: line.ID, Version: line.Version, Manifest: line.Manifest})
	}
	if err != nil {
		f := fault.Wrap(err, "the proof of %s@%s in %q: %s", line.ID, line.Version, l.Show(l.VendorDir()),
			fault.Of(err).Text).On("bundle", line.ID).On("version", line.Version)
		if len(f.Hint) == 0 {
			f.Try("rye docs registry-trust")
		}
		return nil, f
	}
	return proof, nil
}

// Proven checks the proofs in .ai/vendor before anything that is vendored there runs. A bundle without one was proven
// when it was locked.
func Proven(ctx context.Context, l *workspace.Lock) error {
	if l.Vendor == nil {
		return nil
	}
	return logged(l, func(logs *registry.Logs, line *lockfile.Bundle) error {
		_, err := vendoredProof(ctx, l, l.Vendor, logs, line)
		return err
	})
}

// takeProofs keeps the vendored proofs with their bundles. One that doesn't count is an error, unless the store has
// one that does, or the registry gives one.
func takeProofs(ctx context.Context, l *workspace.Lock, v *vendor.Vendor) error {
	return logged(l, func(logs *registry.Logs, line *lockfile.Bundle) error {
		proof, wrong := vendoredProof(ctx, l, v, logs, line)
		if wrong != nil {
			if _, err := l.Sources.Proof(ctx, *line); err != nil {
				return wrong
			}
			l.Warn(fault.Of(wrong).Text+": rye vendor writes another one", nil)
			return nil
		}
		if proof == nil {
			return nil
		}
		of := tlog.Release{Bundle: line.ID, Version: line.Version, Manifest: line.Manifest}
		if err := logs.Take(ctx, proof, of); err != nil {
			return err
		}
		store := l.DiskStore()
		if kept, err := bundle.ReadProof(ctx, store, store, line.Manifest, line.Log); err == nil &&
			kept.Index == line.Leaf && logs.Refuses(ctx, kept, of) == nil {
			return nil
		}
		return install.KeepProof(ctx, store, line.Manifest, proof)
	})
}

// vendorProofs writes the proofs of the lock's bundles into .ai/vendor. One that is there and counts stays: each has
// other bytes when it is made again.
func vendorProofs(ctx context.Context, l *workspace.Lock, result *VendorResult) error {
	v, err := vendor.Open(l.VendorDir())
	if err != nil {
		return err
	}
	defer v.Close()
	proofs := map[cas.Digest][]byte{}
	if err := logged(l, func(logs *registry.Logs, line *lockfile.Bundle) error {
		proof, wrong := vendoredProof(ctx, l, v, logs, line)
		if proof == nil {
			var err error
			proof, err = l.Sources.Proof(ctx, *line)
			if _, offline := errors.AsType[*sources.OfflineError](err); offline && wrong == nil {
				l.Warn("without the proof of its log", err)
				return nil
			}
			if err != nil {
				return err
			}
		}
		proofs[line.Manifest] = proof.Append(nil)
		return nil
	}); err != nil {
		return err
	}
	for i := range l.Old.Bundles { // one of a log whose key isn't known stays as it is
		line := &l.Old.Bundles[i]
		if text, err := v.Proof(line.Manifest); err == nil && line.Log != "" && proofs[line.Manifest] == nil {
			proofs[line.Manifest] = text
		}
	}
	written, removed, err := vendor.WriteProofs(ctx, l.VendorDir(), proofs)
	result.Files += len(proofs)
	result.Written += written
	result.Removed += removed
	return err
}

// checkProofs adds to the answer of CheckVendor what is wrong with the proofs, and returns why the first that doesn't
// count doesn't.
func checkProofs(ctx context.Context, l *workspace.Lock, v *vendor.Vendor, found []cas.Digest, ans *VendorResult) (
	wrong, err error) {
	wanted := map[cas.Digest]bool{}
	err = logged(l, func(logs *registry.Logs, line *lockfile.Bundle) error {
		wanted[line.Manifest] = true
		proof, bad := vendoredProof(ctx, l, v, logs, line)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case bad != nil:
			if wrong == nil {
				wrong = bad
			}
			ans.Problems = append(ans.Problems, fault.Of(bad).Text)
		case proof == nil:
			ans.Problems = append(ans.Problems, fmt.Sprintf("missing: the proof that the log %q has %s@%s", line.Log,
				line.ID, line.Version))
		default:
			ans.Files++
		}
		return nil
	})
	locked := map[cas.Digest]bool{} // in logs whose keys aren't known, too
	for i := range l.Old.Bundles {
		locked[l.Old.Bundles[i].Manifest] = true
	}
	for _, id := range found {
		if !wanted[id] && !locked[id] {
			ans.Problems = append(ans.Problems, "not needed: the proof of "+id.String())
		}
	}
	return wrong, err
}
