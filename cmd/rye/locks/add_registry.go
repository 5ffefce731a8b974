package locks

import (
	"context"
	"net/url"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/paths"
	ryeyaml "github.com/rye-build/rye/lock/project"
	"github.com/rye-build/rye/lock/registry"
)

// meetRegistry adds the registry of --registry to rye.yaml for the namespace of a bundle. One that isn't there yet is
// shown with its keys, and asked about once: from then on the two keys decide.
func (c *addRun) meetRegistry(ctx context.Context, lock *paths.Lock, id string) error {
	if c.From+c.Index != "" {
		return fault.New(fault.Validation,
			"--registry can't be combined with --from or --index: a bundle has one source")
	}
	at := strings.TrimSuffix(c.Registry, "/")
	if !strings.Contains(at, "://") {
		at = "https://" + at
	}
	if _, err := ryeyaml.ParseSource(ryeyaml.RegistryAt(at).Where, false); err != nil {
		return err
	}
	lock.Typed = append(lock.Typed, ryeyaml.RegistryAt(at).Host())
	space, _, _ := strings.Cut(id, "/")
	met := ryeyaml.Registry{URL: at, Names: []string{space + "/**"}}
	for i := range lock.Yaml.Registries {
		known := &lock.Yaml.Registries[i]
		if known.URL != at {
			continue
		}
		if known.Has(id) {
			return nil
		}
		met.Log, met.Key = known.Log, known.Key
	}
	if met.Log.IsZero() {
		fetcher := paths.RegistryFetcher(lock.App)
		if fetcher == nil {
			return fault.New(fault.Offline, "the registry %q can't be met: rye is offline", at).Try(lock.App.Online())
		}
		description, err := registry.ReadDescription(ctx, fetcher(false), at)
		if err != nil {
			return err
		}
		met.Log, met.Key = description.Log, description.Key
		term := lock.App.Term
		term.Note("%s is the registry %q", at, description.Name)
		term.Note("  log  %s", met.Log)
		term.Note("  key  %s, which signs its indexes", met.Key)
		term.Note("the registry then decides which versions of %s exist, and who may sign them stays your policy's",
			met.Names[0])
		host, space, private := registry.SplitPrivate(at)
		name := ""
		if u, err := url.Parse(host); err == nil {
			name = u.Hostname()
		}
		if private {
			name += registry.PrivatePath(space)
		}
		if name != description.Name {
			term.Warn("its name is not that of its address")
		}
		if err := lock.App.Confirm(ctx, "write these keys into rye.yaml?"); err != nil {
			return err
		}
	}
	var err error
	lock.Yaml, err = lock.Yaml.AddRegistry(met)
	return err
}

// inRegistry returns the source of a bundle that the names of a registry in rye.yaml cover.
func inRegistry(lock *paths.Lock, id string) (ryeyaml.Source, error) {
	switch all := lock.Yaml.RegistriesOf(id); len(all) {
	case 0:
		return ryeyaml.Source{}, fault.New(fault.Validation, "%q needs a source: --from, --index or --registry", id).
			Try("rye docs sources")
	case 1:
		return ryeyaml.RegistryAt(all[0].URL), nil
	default:
		return ryeyaml.Source{}, fault.New(fault.Ambiguous, "the names of several registries cover %q: %s and %s", id,
			all[0].URL, all[1].URL).On("bundle", id).
			Because("each of them could replace a bundle of the other: narrow the names under registries").
			Try("rye docs registry")
	}
}

// otherPlugin is the error for a plugin with the name of one that rye.yaml has from another source.
func otherPlugin(id string, old, src ryeyaml.Source) error {
	return fault.New(fault.Conflict, "the project has another plugin %q, from %q", id, old.Where).On("bundle", id).
		On("source", old.Where).Because("two plugins with one name can't be used together").
		Try(fault.Command("rye remove", id), fault.Command("rye add", id, "--from", src.Where))
}
