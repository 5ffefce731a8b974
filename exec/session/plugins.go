package session

import (
	"context"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/chain"
	"github.com/rye-build/rye/lock"
	"github.com/rye-build/rye/lock/file"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// plugins returns the plugins that calls may use: those of the lock, or without a project the installed ones. The
// working tree has none: what runs are the files that an admitted manifest lists.
func (s *Session) plugins(trusted *trust.Trust, set *lock.Set) chain.Plugins {
	if s.o.Plugins != nil {
		return s.o.Plugins
	}
	return func(ctx context.Context, id string) (*chain.Plugin, error) {
		var found *bundle.Bundle
		var bytes cas.Getter
		source := ""
		switch {
		case set != nil:
			if found, bytes = set.Bundle(id), set; found != nil {
				source = set.Lock().Bundle(id).Source.Where
			}
		case s.w.Root.Root == "":
			at, err := s.w.Finder().Current(id)
			if err != nil {
				return nil, err
			}
			store, err := s.w.OpenStore(false)
			if err != nil {
				return nil, err
			}
			if at != nil {
				found, bytes = at.Bundle, store
			}
		}
		if found == nil {
			return nil, fault.New(fault.NotLocked, "the plugin %q is not locked", id).On("plugin", id).
				Because("a tool runs with the files of a plugin only as rye.lock pins them").
				Try(fault.Command("rye add", id))
		}
		return s.plugin(trusted, found, bytes, source)
	}
}

// allowed returns the rights that rye.yaml gives a server of a plugin now.
func (s *Session) allowed(plugin, server string) ([]string, error) {
	if s.w.Root.Marker != workspace.MarkerFile {
		return nil, nil
	}
	yaml, err := s.w.Root.File(s.w.Version)
	if err != nil {
		return nil, err
	}
	requirement, _ := yaml.Requirement(plugin)
	return requirement.Allow[server], nil
}

// plugin returns the plugin of a bundle if the policies admit its manifest and revoke none of its files.
func (s *Session) plugin(trusted *trust.Trust, b *bundle.Bundle, bytes cas.Getter, source string) (*chain.Plugin,
	error) {
	if b.Plugin == "" {
		return nil, fault.New(fault.Validation, "the bundle %q is not a plugin", b.BundleID).On("plugin", b.BundleID).
			Try(fault.Command("rye bundle inspect", b.BundleID))
	}
	k, err := s.Kernel()
	if err != nil {
		return nil, err
	}
	var verify bundle.VerifyOptions
	if trusted != nil {
		verify.Trust = trusted.Exam()
	}
	exam, err := verify.Admit(b)
	if err != nil {
		return nil, err
	}
	bundle.Revoked(verify.Trust, b.Name, b.Files, func(f *manifest.File, d policy.Decision) {
		if err == nil {
			refused := &bundle.NotAdmittedError{Name: b.Name, Decision: d}
			err = fault.Wrap(refused, "the file %q of %s", f.Path, refused).On("file", f.Path)
		}
	})
	if err != nil {
		return nil, err
	}
	found := &chain.Plugin{ID: b.BundleID, Files: b.Files, Bytes: bytes, Space: file.System + b.BundleID,
		Own: exam.Decision.OwnedBy(k.Own)}
	for _, v := range exam.Decision.Signers {
		if v.Code == policy.Admitted {
			found.Vouchers = append(found.Vouchers, v.Key.String())
		}
	}
	if len(found.Vouchers) == 0 { // the policy names its digest
		found.Vouchers = []string{"source " + source}
	}
	return found, nil
}
