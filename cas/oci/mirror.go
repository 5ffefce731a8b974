package oci

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/guard"
)

// A mirror has copies of a repository's blobs and manifests. A digest names the same bytes everywhere, so rye asks
// mirrors for them first. For tags and referrers it asks the registry first.
type mirror struct {
	Reference
	at   place
	left atomic.Bool // it failed once
}

// mirrorsOf returns the mirrors that Options.Mirrors lists for a repository.
func mirrorsOf(r Reference, text string) (all []Reference, err error) {
	for word := range strings.FieldsSeq(text) {
		host, to, _ := strings.Cut(word, "=")
		m, err := ParseReference(Scheme + to + "/x")
		if host == "" || err != nil || m.Tag != "" || m.Digest != "" {
			return nil, fault.New(fault.Config, "invalid mirror %q: expected HOST=MIRROR[/PREFIX]",
				fault.Clip(word, 200)).On("mirror", fault.Clip(word, 200)).
				Try("rye docs oci")
		}
		if strings.EqualFold(host, r.Host) {
			m.Name = strings.TrimSuffix(m.Name, "x") + r.Name
			all = append(all, m)
		}
	}
	return all, nil
}

// read reads the bytes that a digest names. f checks them, so a mirror with other bytes counts as failed.
func (p *Place) read(ctx context.Context, f func(at place) error) error {
	if err := p.fromMirrors(ctx, f); err == nil || ctx.Err() != nil {
		return err
	}
	return p.again(ctx, func() error { return f(p.at) })
}

// look asks for tags and lists, which may change. If the registry fails, mirrors answer with what they have.
func (p *Place) look(ctx context.Context, f func(at place) error) error {
	err := p.again(ctx, func() error { return f(p.at) })
	if err == nil || ctx.Err() != nil || guard.Explain(err).Code == fault.NotFound || p.fromMirrors(ctx, f) != nil {
		return err
	}
	return nil
}

var errNoMirror = errors.New("no mirror has it")

// fromMirrors asks one mirror after the other. A mirror that fails is not asked again; one that lacks something has
// not failed.
func (p *Place) fromMirrors(ctx context.Context, f func(at place) error) error {
	for _, m := range p.mirrors {
		if m.left.Load() {
			continue
		}
		err := f(m.at)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if why := guard.Explain(err); why.Code != fault.NotFound && m.left.CompareAndSwap(false, true) &&
			p.options.Left != nil {
			p.options.Left(fault.Wrap(why, "%s: %s", m.Reference, why.Text))
		}
	}
	return errNoMirror
}
