// Package remote speaks the distribution protocol of OCI with one repository of a registry: blobs are pushed in one
// piece, manifests are pushed and enter the lists of what they refer to, and lists are read page by page. Which
// requests may be made, and where they may be redirected to, is decided by package guard, in Repository.HTTP.
//
// # Authentication
//
// A request is first made without credentials, or with what answered an earlier one of the same scopes. If the answer
// is 401, the request is made again as WWW-Authenticate says, once, and the next answer stands:
//
//	Basic   the user and the password
//	Bearer  a token of the service that realm names, for the scopes of the request and of the challenge: by GET, with
//	        the user and the password if there are any, or by POST with an identity token
//
// A token that was given for the same scopes to another request is tried before a new one is asked for.
//
// # Where credentials go
//
// To the host of the repository, and to the token service that it names. If the registry is reached by TLS, so is the
// service; and its address is none of this machine or its networks, unless it is the registry's own host. A redirect
// to another host takes no header and no body with credentials along, and a challenge of another host gets none.
package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
	"github.com/rye-build/rye/cas/oci/spec"
)

// A Credential is for a registry: a user and a password, or an identity token.
type Credential struct{ User, Password, Token string }

// What a request does, as scopes name it. Who pushes also looks.
const (
	Pull = "pull"
	Push = "pull,push"
)

// A Repository is one of a registry. It may be used by several goroutines.
type Repository struct {
	Host, Name string       // HOST[:PORT] on the network, and what it is called there
	HTTP       *http.Client // with a guard.Guard and guard.Follow
	PlainHTTP  bool
	// Credential is asked when the registry wants to know. Nil, or a zero Credential, is nothing.
	Credential func(context.Context) (Credential, error)

	asking sync.Mutex // for a token
	mu     sync.Mutex
	known  map[string]*known // by host

	listing sync.Mutex // of referrers under a tag
	lists   atomic.Int32
}

// Request makes a request about the repository. Its URL can be sent to Do.
func (r *Repository) Request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	scheme := "https"
	if r.PlainHTTP {
		scheme = "http"
	}
	return http.NewRequestWithContext(ctx, method, scheme+"://"+r.Host+"/v2/"+r.Name+path, body)
}

// PutBlob sends a blob.
func (r *Repository) PutBlob(ctx context.Context, d spec.Descriptor, b []byte) error {
	begin, err := r.Request(ctx, http.MethodPost, "/blobs/uploads/", nil)
	if err != nil {
		return err
	}
	resp, err := r.Do(begin, Push)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusAccepted {
		return answer(resp)
	}
	resp.Body.Close()
	to, err := uploadTo(begin.URL, resp)
	if err != nil {
		return err
	}
	query := to.Query()
	query.Set("digest", d.Digest)
	to.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to.String(), bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	if was := resp.Request.Header.Get("Authorization"); was != "" {
		req.Header.Set("Authorization", was)
	}
	if resp, err = r.Do(req, Push); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return answer(resp)
	}
	resp.Body.Close()
	return nil
}

// answer is the error of an answer that isn't what was asked for, which is over then.
func answer(resp *http.Response) error {
	defer resp.Body.Close()
	return guard.Answer(resp)
}

// uploadTo is where an upload goes on: on the same host, since credentials go there too.
func uploadTo(begun *url.URL, resp *http.Response) (*url.URL, error) {
	to, err := resp.Location()
	if err != nil {
		return nil, err
	}
	if begun.Port() == "443" && to.Hostname() == begun.Hostname() && to.Port() == "" {
		to.Host += ":443" // which some registries leave out
	}
	if to.Hostname() != begun.Hostname() || guard.Port(to) != guard.Port(begun) {
		return nil, fmt.Errorf("the upload goes on at %q, not at the registry %q", to.Host, begun.Host)
	}
	if begun.Scheme == "https" && to.Scheme != "https" {
		return nil, fmt.Errorf("the upload goes on at %q without https", to.Host)
	}
	return to, nil
}

// PutManifest sends a manifest, and gives it a tag; without one it is known by its digest. What it refers to then has
// it among its referrers.
func (r *Repository) PutManifest(ctx context.Context, d spec.Descriptor, b []byte, tag string) error {
	if err := r.putManifest(ctx, d, b, tag); err != nil || r.lists.Load() == byAPI {
		return err
	}
	entry, subject, err := referrer(d, b)
	if err != nil || subject == "" {
		return err
	}
	r.lists.CompareAndSwap(unknown, byTag) // else it would have been said
	return r.list(ctx, entry, subject)
}

func (r *Repository) putManifest(ctx context.Context, d spec.Descriptor, b []byte, tag string) error {
	name := tag
	if name == "" {
		name = d.Digest
	}
	req, err := r.Request(ctx, http.MethodPut, "/manifests/"+name, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", d.MediaType)
	resp, err := r.Do(req, Push)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return answer(resp)
	}
	resp.Body.Close()
	if resp.Header.Get("OCI-Subject") != "" {
		r.lists.CompareAndSwap(unknown, byAPI)
	}
	switch found := resp.Header.Get("Docker-Content-Digest"); {
	case found == "" || found == d.Digest:
		return nil
	case !format.ValidDigest(found):
		return fmt.Errorf("invalid Docker-Content-Digest: %s", found)
	default:
		return fmt.Errorf("the registry has stored %q, not %q", found, d.Digest)
	}
}
