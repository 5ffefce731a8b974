package workspace

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/bundle/plugin"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	lockfile "github.com/rye-build/rye/lock/file"
	sources "github.com/rye-build/rye/lock/source"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key"
	"github.com/rye-build/rye/manifest/policy"
	"github.com/rye-build/rye/manifest/trust"
)

// This file has the project's list of signers: the public keys that a new user of the project is asked about.

// signersPath is the file of the list. It carries no trust.
func (l *Lock) signersPath() string { return filepath.Join(l.DotAI, sources.SignersFile) }

// WriteSigners writes the public keys of those who signed the pins of a lock, with the owners that the policy names.
func (l *Lock) WriteSigners(of *lockfile.Lock) error {
	if l.User || l.Trust == nil {
		return nil
	}
	file := l.signersPath()
	if err := ai.Inside(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Config, "%q is a symbolic link that leads out of the project", file).On("path", file)
	}
	before, unread := sources.ReadSigners(file) // an unreadable list is replaced
	keys := map[key.Fingerprint]manifest.SignerKey{}
	for i := range of.Pins {
		for _, f := range of.Pins[i].Signers {
			if k, ok := l.Trust.Root.Side.Policy.Key(f); ok {
				keys[f] = manifest.SignerKey{Public: k.Public, Owner: k.Owner}
			} else if i := indexKey(before, f); i >= 0 {
				keys[f] = before[i]
			}
		}
	}
	if len(keys)+len(before) == 0 && unread == nil {
		return nil
	}
	data, err := manifest.AppendSigners(nil, slices.Collect(maps.Values(keys)))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(l.DotAI, 0o777); err != nil {
		return err
	}
	d, err := osfile.OpenDir(l.DotAI, 0o777)
	if err != nil {
		return err
	}
	defer d.Close()
	old, err := d.Read(sources.SignersFile, int64(len(data))+1)
	if err == nil && old != nil && bytes.Equal(old, data) {
		return nil
	}
	return d.Write(sources.SignersFile, 0o644, old == nil && err == nil, data)
}

func indexKey(keys []manifest.SignerKey, f key.Fingerprint) int {
	return slices.IndexFunc(keys, func(k manifest.SignerKey) bool { return k.Public.Fingerprint() == f })
}

// Trusting is Policy for a command that acts on what is pinned: without a policy the refusal names a signer to trust,
// if there is one.
func (l *Lock) Trusting() (*trust.Trust, error) {
	t, err := l.Policy()
	if trust.IsMissing(err) {
		if stranger := l.Stranger(); stranger != nil {
			return nil, stranger
		}
	}
	return t, err
}

// Stranger returns the refusal of pinned items, of all or of some, whose signers the root policy doesn't know, or nil.
// It is about one signer and has what the user needs in order to decide. A user without a policy knows no signer.
func (l *Lock) Stranger(refs ...model.Ref) error {
	if l.Old == nil {
		return nil
	}
	if _, err := l.Policy(); err != nil && !trust.IsMissing(err) {
		return err
	}
	root, err := l.RootPolicy()
	if err != nil {
		return err
	}
	rules := root.Side.Policy
	unknown := func(pin *lockfile.Pin) bool {
		return len(pin.Signers) > 0 && !slices.ContainsFunc(pin.Signers, func(f key.Fingerprint) bool {
			_, ok := rules.Key(f)
			return ok
		})
	}
	keys, _ := sources.ReadSigners(l.signersPath()) // without it the refusal has no keys
	var who *key.Fingerprint
	for i := range l.Old.Pins {
		pin := &l.Old.Pins[i]
		if !unknown(pin) || len(refs) > 0 && !slices.Contains(refs, pin.Ref) {
			continue
		}
		for _, f := range pin.Signers {
			if who == nil || indexKey(keys, *who) < 0 && indexKey(keys, f) >= 0 {
				who = &f
			}
		}
	}
	if who == nil {
		return nil
	}
	no := &bundle.NotAdmittedError{From: l.signersPath(), Keys: keys, Signatures: manifest.Signatures{{Key: *who}},
		Decision: policy.Decision{Answer: policy.Answer{Code: policy.UntrustedKey}}}
	var ids []string
	for i := range l.Old.Pins {
		pin := &l.Old.Pins[i]
		if !unknown(pin) || !slices.Contains(pin.Signers, *who) {
			continue
		}
		ids = append(ids, pin.Ref.ID)
		if id, ok := strings.CutPrefix(pin.From, lockfile.System); ok {
			ids = append(ids, id)
		}
		// Names that another key signs for are the ones that matter.
		if rule, ok := rules.RuleOf(pin.Ref.String()); no.Name == "" || ok && rule.Glob != "**" {
			no.Name = pin.Ref.String()
		}
	}
	no.Names = Narrowest(ids)
	return no
}

// Narrowest returns the globs with the longest common directories that cover all ids, one for each author
// (plugin.Owned).
func Narrowest(ids []string) []string {
	dirs := map[string]string{} // by author; "" for the id of an author itself
	for _, id := range ids {
		first := plugin.Owned(id)
		dir, have := dirs[first]
		switch in := path.Dir(id); {
		case first == id:
			dirs[first] = dir
		case !have || dir == "":
			dirs[first] = in
		default:
			for !strings.HasPrefix(in+"/", dir+"/") {
				dir = path.Dir(dir)
			}
			dirs[first] = dir
		}
	}
	var globs []string
	for _, first := range slices.Sorted(maps.Keys(dirs)) {
		if slices.Contains(ids, first) {
			globs = append(globs, first)
		}
		if dirs[first] != "" {
			globs = append(globs, dirs[first]+"/**")
		}
	}
	return globs
}
