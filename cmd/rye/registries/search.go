package registries

import (
	"context"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/lock/registry"
)

// Found is what one registry has for a query.
type Found struct {
	Registry string `json:"registry"`
	Bundles  []Hit  `json:"bundles"`
}

// A Hit is a bundle that a registry has.
type Hit struct {
	registry.Hit
	Locked string `json:"locked,omitempty"` // the version that rye.lock has
}

// Text shows what was found. A registry's word proves nothing, so each line says whether the lock has the bundle.
func (f Found) Text(t *cli.Terminal) {
	for i := range f.Bundles {
		h := &f.Bundles[i]
		state := "not locked"
		if h.Locked != "" {
			state = "locked at " + h.Locked
		}
		if h.Private {
			state += ", private"
		}
		t.Printf("%s  %s  %s\n", t.Stdout.Paint(cli.RoleHint, h.Bundle, t.Ascii), h.Version, state)
		if h.About != "" {
			t.Printf("  %s\n", h.About)
		}
	}
	if len(f.Bundles) == 0 {
		t.Note("nothing found at %s", f.Registry)
		return
	}
	t.Note("at %s; to use one: rye add ID --registry %s", f.Registry, fault.Quote(f.Registry))
	for i := range f.Bundles {
		if h := &f.Bundles[i]; h.Private {
			host, _, _ := registry.SplitPrivate(f.Registry)
			space, _, _ := strings.Cut(h.Bundle, "/")
			t.Note("a private one: rye add %s --registry %s", h.Bundle,
				fault.Quote(host+registry.PrivatePath(space)))
			break
		}
	}
}

// Search asks the registry at an address for bundles, or without one the registries of rye.yaml. Each answers with at
// most limit bundles.
func Search(ctx context.Context, app *cli.App, at, query string, limit int) ([]Found, error) {
	var places []string
	if at != "" {
		at, err := address(at)
		if err != nil {
			return nil, err
		}
		places = append(places, at)
	}
	workspace, err := paths.OpenWorkspace(app)
	if err != nil {
		return nil, err
	}
	defer workspace.Close()
	lock, err := workspace.OpenLock(false)
	if err != nil && fault.CodeOf(err) != fault.NotFound {
		return nil, err
	}
	locked := map[string]string{}
	if lock != nil {
		for i := range lock.Yaml.Registries {
			if at == "" {
				places = append(places, lock.Yaml.Registries[i].URL)
			}
		}
		if lock.Old != nil {
			for i := range lock.Old.Bundles {
				locked[lock.Old.Bundles[i].ID] = lock.Old.Bundles[i].Version
			}
		}
	}
	if len(places) == 0 {
		return nil, fault.New(fault.Validation, "no registry is named: rye.yaml has none").
			Try("rye search --registry=https://HOST " + fault.Quote(query))
	}
	all := []Found{}
	for _, place := range places {
		session, err := openToRead(ctx, app, place, at != "")
		if err != nil {
			return nil, err
		}
		hits, err := session.Search(ctx, query)
		if err != nil {
			return nil, err
		}
		found := Found{Registry: place, Bundles: []Hit{}}
		for _, h := range hits[:min(len(hits), limit)] {
			found.Bundles = append(found.Bundles, Hit{h, locked[h.Bundle]})
		}
		all = append(all, found)
	}
	return all, nil
}
