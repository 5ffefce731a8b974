package oci

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
)

// Options say how a place is used.
type Options struct {
	// Transport makes the requests. It decides which addresses may be dialled, and knows proxies and authorities. A
	// registry needs one; it should end when no header lines come.
	Transport http.RoundTripper
	// Dir is the path of a layout, where the reference has another than what opens it. May be empty.
	Dir string
	// PlainHTTP allows registries without TLS on every host, not only on this machine.
	PlainHTTP bool
	// Credential finds the credential for a registry, HOST[:PORT]. It is called when the registry asks. Nil, or a zero
	// Credential, is none.
	Credential func(ctx context.Context, host string) (Credential, error)
	// Mirrors says which registries have copies of others: HOST=MIRROR[/PREFIX], separated by spaces. They need no
	// trust.
	Mirrors string
	// Left is called when a mirror fails, and is not asked again. May be nil.
	Left func(err error)
	// Again is called before a retry, with the error and the pause. May be nil.
	Again func(err error, in time.Duration)
	// Progress is called by several goroutines with the bytes of objects that were sent or used. May be nil.
	Progress func(bytes int64)

	pauses []time.Duration // before a retry; nil: those of the package
	stall  time.Duration   // in which 16 KiB have to come; 0: that of the package
}

// A Credential is for a registry: a user and a password, or an identity token.
type Credential struct{ User, Password, Token string }

// A Place is one repository of a registry, or an image layout. It is safe for concurrent use.
type Place struct {
	Reference Reference // without tag and digest
	options   Options
	at        place
	mirrors   []*mirror
}

// A place keeps blobs and manifests. It bounds what it returns, and checks nothing else of it.
type place interface {
	// manifest returns the bytes of a manifest, of at most format.MaxManifest, by tag or digest.
	manifest(ctx context.Context, name string) ([]byte, error)
	has(ctx context.Context, d ocispec.Descriptor) (bool, error)
	// open returns a blob from about a byte on, and from which.
	open(ctx context.Context, d ocispec.Descriptor, from int64) (io.ReadCloser, int64, error)
	put(ctx context.Context, d ocispec.Descriptor, b []byte) error
	// putManifest puts a manifest and gives it a tag; without one it is known by its digest. What it refers to as its
	// subject then has it among its referrers.
	putManifest(ctx context.Context, d ocispec.Descriptor, b []byte, tag string) error
	// referrers returns what refers to a manifest, digests and types alone, and whether there is more than may be
	// listed.
	referrers(ctx context.Context, d ocispec.Descriptor) (all []ocispec.Descriptor, more bool, err error)
	tags(ctx context.Context) ([]string, error)
}

// Open returns the place of a reference. It asks nothing yet.
func Open(reference Reference, o Options) (*Place, error) {
	place := &Place{Reference: Reference{Host: reference.Host, Name: reference.Name, Dir: reference.Dir}, options: o}
	if reference.Dir != "" {
		place.at = &layout{dir: cmp.Or(o.Dir, reference.Dir)}
		return place, nil
	}
	mirrors, err := mirrorsOf(reference, o.Mirrors)
	if err != nil {
		return nil, err
	}
	for _, m := range mirrors {
		at, err := newRepository(m, &place.options)
		if err != nil {
			return nil, err
		}
		place.mirrors = append(place.mirrors, &mirror{Reference: m, at: at})
	}
	place.at, err = newRepository(reference, &place.options)
	return place, err
}

// Source returns the reference that the journal records for the place: that of a layout has its path.
func (p *Place) Source() Reference {
	r := p.Reference
	if r.Dir != "" {
		r.Dir = cmp.Or(p.options.Dir, r.Dir)
	}
	return r
}

// Tags lists the tags that the place has, those of OCI's own use left out.
func (p *Place) Tags(ctx context.Context) ([]string, error) {
	var all []string
	err := p.look(ctx, func(at place) (err error) {
		all, err = at.tags(ctx)
		return err
	})
	return all, p.about("", err)
}

// progress counts bytes.
func (p *Place) progress(n int64) {
	if p.options.Progress != nil {
		p.options.Progress(n)
	}
}

// maxPause is how long a server may ask to wait.
const maxPause = 10 * time.Second

// pauses are the waits before retries.
func (p *Place) pauses() []time.Duration {
	if p.options.pauses != nil {
		return p.options.pauses
	}
	return []time.Duration{250 * time.Millisecond, time.Second}
}

// again calls try up to three times, as long as its error may pass.
func (p *Place) again(ctx context.Context, try func() error) error {
	for _, wait := range p.pauses() {
		err := try()
		if err == nil || ctx.Err() != nil || !guard.Passing(err) {
			return err
		}
		if status, ok := errors.AsType[*guard.StatusError](err); ok && status.After > wait {
			if wait = status.After; wait > maxPause {
				return err
			}
		}
		if p.options.Again != nil {
			p.options.Again(p.about("", err), wait)
		}
		if err := cas.Sleep(ctx, wait); err != nil {
			return err
		}
	}
	return try()
}

// about adds the place to an error.
func (p *Place) about(name string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	where := p.Reference
	if format.ValidDigest(name) {
		where.Digest = name
	} else {
		where.Tag = name
	}
	f := guard.Explain(err)
	if r, ok := p.at.(*repository); ok {
		r.denied(f)
	}
	if f.Code != fault.Files && len(f.Hint) == 0 {
		f.Try("rye docs oci")
	}
	return fault.Wrap(f, "%s: %s", where, f.Text).On("reference", where.String())
}

// readAll reads a blob that has a size and a digest.
func readAll(r io.Reader, d ocispec.Descriptor) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, d.Size+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) < d.Size:
		return nil, io.ErrUnexpectedEOF
	case int64(len(data)) > d.Size:
		return nil, damaged(d, fmt.Sprintf("more than %d bytes", d.Size))
	case format.Sum(data) != d.Digest.String():
		return nil, damaged(d, "found "+format.Sum(data))
	}
	return data, nil
}

func damaged(d ocispec.Descriptor, why string) *fault.Error {
	return fault.New(fault.Integrity, "wrong bytes for %s: %s", d.Digest, why).On("digest", d.Digest.String()).
		On("reason", "blob")
}

func wrongSize(d ocispec.Descriptor, found int64) error {
	return damaged(d, fmt.Sprintf("it has %d bytes, not %d", found, d.Size))
}

// get reads a blob into memory.
func (p *Place) get(ctx context.Context, d ocispec.Descriptor) (b []byte, err error) {
	err = p.read(ctx, func(at place) error {
		r, _, err := at.open(ctx, d, 0)
		if err != nil {
			return err
		}
		defer r.Close()
		b, err = readAll(r, d)
		return err
	})
	return b, err
}

func notFound(what string) *fault.Error {
	return fault.New(fault.NotFound, "%s not found", what).From(fs.ErrNotExist)
}
