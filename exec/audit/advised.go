package audit

import (
	"strings"

	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/lock/advisory"
)

// A Finding is an item of a recorded call whose bundle an advisory covers now.
type Finding struct {
	Record   *Record
	Item     string // the ref of the item: the call's own, or one that ran it
	Bundle   string // as in "acme/base@1.0.0"
	Registry string
	Advisory *advisory.Advisory
}

// Advised returns the items of a call that advisories cover. covering returns the advisories of a registry that cover
// a version of a bundle.
func Advised(r *Record, covering func(registry, bundle, version string) ([]*advisory.Advisory, error)) (all []Finding,
	err error) {
	links := append([]record.Link{{Ref: r.Call.Ref, Bundle: r.Call.Bundle, Registry: r.Call.Registry}},
		r.Call.Chain...)
	for _, link := range links {
		id, version, ok := strings.Cut(link.Bundle, "@")
		if !ok || link.Registry == "" {
			continue
		}
		found, err := covering(link.Registry, id, version)
		if err != nil {
			return nil, err
		}
		for _, a := range found {
			all = append(all, Finding{r, link.Ref, link.Bundle, link.Registry, a})
		}
	}
	return all, nil
}
