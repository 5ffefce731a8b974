package registries

import (
	"net/url"
	"slices"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/pipeline"
	"github.com/rye-build/rye/lock/web"
)

// issuers returns what identifies the runs of pipelines; nil where the configuration names no issuer. The hosts of the
// configuration may be private ones; where an issuer leads from there may not.
func issuers(c *config, o *registry.Options) (*pipeline.Issuers, error) {
	if len(c.Issuers) == 0 {
		return nil, nil
	}
	hosts := slices.Clone(c.Inside)
	for _, issuer := range c.Issuers {
		if err := issuer.Check(); err != nil {
			return nil, err
		}
		at, err := url.Parse(issuer.URL)
		if err != nil {
			return nil, fault.New(fault.Config, "the issuer %q is not an address", issuer.URL).From(err)
		}
		hosts = append(hosts, at.Host)
	}
	own, err := url.Parse("https://" + c.Name)
	if err != nil {
		return nil, err
	}
	return &pipeline.Issuers{List: c.Issuers, Audience: []string{"https://" + own.Host}, Now: o.Now,
		Web: web.New(web.Options{Stranger: true, Inside: hosts})}, nil
}
