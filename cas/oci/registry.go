package oci

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
	"github.com/rye-build/rye/cas/oci/remote"
)

const (
	maxReferrers = 16 << 20 // bytes that the list for one manifest says of them
	maxTags      = 100_000
)

// A repository is one of a registry.
type repository struct {
	host   string // as references name it
	remote *remote.Repository

	told atomic.Pointer[Credential] // nil or zero: none

	mu     sync.Mutex
	probed bool // whether remote knows if the server speaks TLS
}

func newRepository(reference Reference, options *Options) (*repository, error) {
	if options.Transport == nil {
		return nil, fault.New(fault.Offline, "%s: the network is off", reference.Repository()).On("reference",
			reference.String())
	}
	g := &guard.Guard{Next: options.Transport, Plain: options.PlainHTTP, Stall: options.stall}
	at := &repository{host: reference.Host}
	var credential func(context.Context) (remote.Credential, error)
	if options.Credential != nil {
		credential = func(ctx context.Context) (remote.Credential, error) {
			found, err := options.Credential(ctx, reference.Host)
			at.told.Store(&found)
			return remote.Credential(found), err
		}
	}
	at.remote = remote.New(reference.Host, reference.Name, &http.Client{Transport: g, CheckRedirect: guard.Follow},
		credential)
	at.probed = !options.PlainHTTP && !guard.Loopback(reference.Host)
	return at, nil
}

// denied completes an error about credentials: it tells missing ones from wrong ones and says how to set them. It
// hides a secret that the registry repeats.
func (r *repository) denied(failure *fault.Error) {
	if failure.Code != fault.AuthRequired && failure.Code != fault.AuthFailed {
		return
	}
	if c := r.told.Load(); c != nil && *c != (Credential{}) {
		for i := range failure.Why {
			for _, secret := range []string{c.Password, c.Token} {
				if secret != "" {
					failure.Why[i] = strings.ReplaceAll(failure.Why[i], secret, "…")
				}
			}
		}
		if failure.Code == fault.AuthRequired {
			failure.Code, failure.Text = fault.AuthFailed, "the registry refuses the credentials"
		}
	}
	failure.Hint = nil
	failure.Try("rye auth set "+Scheme+r.host, "rye docs oci")
}

// ready finds out whether the server speaks TLS, where plain HTTP is allowed.
func (r *repository) ready(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.probed {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.remote.Host()+"/v2/", nil)
	if err != nil {
		return err
	}
	resp, err := r.remote.HTTP.Do(req)
	if err == nil {
		resp.Body.Close()
	}
	if _, other := errors.AsType[tls.RecordHeaderError](err); other || errors.Is(err, http.ErrSchemeMismatch) {
		r.remote.UsePlainHTTP()
		err = nil
	}
	if _, busy := errors.AsType[*guard.StatusError](err); busy {
		err = nil // it speaks TLS
	}
	r.probed = err == nil
	return err
}

func (r *repository) manifest(ctx context.Context, name string) ([]byte, error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	req, err := r.remote.Request(ctx, http.MethodGet, "/manifests/"+name)
	if err != nil {
		return nil, err
	}
	req.Header["Accept"] = remote.Accepted
	resp, err := r.remote.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, answer(resp, "the manifest")
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, format.MaxManifest+1))
	if err == nil && len(b) > format.MaxManifest {
		err = fault.New(fault.Limit, "the manifest has more than %d bytes", format.MaxManifest)
	}
	return b, err
}

// answer returns the error of an answer with another status than the expected one.
func answer(resp *http.Response, what string) error {
	if resp.StatusCode == http.StatusNotFound {
		return notFound(what)
	}
	return guard.Answer(resp)
}

// has asks by HEAD. A blob of another size counts as missing: a push then sends it.
func (r *repository) has(ctx context.Context, desc ocispec.Descriptor) (bool, error) {
	if err := r.ready(ctx); err != nil {
		return false, err
	}
	req, err := r.remote.Request(ctx, http.MethodHead, "/blobs/"+desc.Digest.String())
	if err != nil {
		return false, err
	}
	resp, err := r.remote.Do(req)
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return resp.ContentLength < 0 || resp.ContentLength == desc.Size, nil
	case http.StatusNotFound:
		return false, nil
	}
	return false, answer(resp, desc.Digest.String())
}

func (r *repository) open(ctx context.Context, desc ocispec.Descriptor, from int64) (io.ReadCloser, int64, error) {
	if err := r.ready(ctx); err != nil {
		return nil, 0, err
	}
	req, err := r.remote.Request(ctx, http.MethodGet, "/blobs/"+desc.Digest.String())
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	resp, err := r.remote.Do(req)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case resp.StatusCode == http.StatusPartialContent && strings.HasPrefix(resp.Header.Get("Content-Range"),
		fmt.Sprintf("bytes %d-", from)),
		resp.StatusCode == http.StatusOK:
		if resp.StatusCode == http.StatusOK {
			from = 0
		}
		if n := resp.ContentLength; n >= 0 && from+n != desc.Size {
			resp.Body.Close()
			return nil, 0, wrongSize(desc, from+n)
		}
		return resp.Body, from, nil
	case from > 0 && resp.StatusCode < 500: // the server has its own idea of ranges
		resp.Body.Close()
		return r.open(ctx, desc, 0)
	}
	defer resp.Body.Close()
	return nil, 0, answer(resp, desc.Digest.String())
}

func (r *repository) put(ctx context.Context, d ocispec.Descriptor, b []byte) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.remote.PutBlob(ctx, d, b)
}

func (r *repository) putManifest(ctx context.Context, d ocispec.Descriptor, b []byte, tag string) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.remote.PutManifest(ctx, d, b, tag)
}

var errEnough = errors.New("enough")

func (r *repository) referrers(ctx context.Context,
	d ocispec.Descriptor) (all []ocispec.Descriptor, more bool, err error) {
	if err := r.ready(ctx); err != nil {
		return nil, false, err
	}
	left := maxReferrers
	more, err = r.remote.Referrers(ctx, d.Digest.String(), func(page []ocispec.Descriptor) error {
		for _, d := range page {
			left -= len(d.Digest) + len(d.ArtifactType) + len(d.MediaType) + 100
			for name, text := range d.Annotations {
				left -= len(name) + len(text)
			}
			if left < 0 {
				return errEnough
			}
			all = append(all, ocispec.Descriptor{Digest: d.Digest, ArtifactType: d.ArtifactType})
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return all, true, nil
	}
	return all, more, err
}

func (r *repository) tags(ctx context.Context) (all []string, err error) {
	if err := r.ready(ctx); err != nil {
		return nil, err
	}
	err = r.remote.Tags(ctx, func(page []string) error {
		if all = append(all, page...); len(all) > maxTags {
			return fault.New(fault.Limit, "more than %d tags", maxTags)
		}
		return nil
	})
	return slices.DeleteFunc(all, func(tag string) bool { return !ValidTag(tag) || ofReferrers(tag) }), err
}

// ofReferrers reports whether a tag keeps the referrers of a manifest.
func ofReferrers(tag string) bool {
	digits, ok := strings.CutPrefix(tag, "sha256-")
	return ok && format.ValidDigest("sha256:"+digits)
}
