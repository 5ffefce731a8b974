// Package remote is the client of one repository of an OCI registry. It is oras-go's, with the limits and the rules
// below: blobs are pushed in one piece, manifests are pushed and enter the lists of what they refer to, and lists are
// read page by page. Package guard, as the transport of Repository.HTTP, decides which requests may be made and where
// they may be redirected to.
//
// # How a request goes through here
//
// Do, PutBlob, PutManifest, Tags and Referrers name the scopes that the request needs and hand it to auth.Client.Do.
// That sends it, and on an answer 401 reads the challenge, checks the token service, asks credential, fetches a token
// and sends the request once more. Every one of these requests passes through the http.Client that the caller gave,
// so through package guard. fromOras then turns oras-go's errors into those of packages guard and fault.
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
//
// oras-go keeps these rules, and two of them are set here: forbidden lists the networks that no token service may be
// in, and New gives the credential to the repository's own host alone. Package guard drops credentials on a redirect
// once more, and forbids a redirect from TLS to plain HTTP.
package remote

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	oras "oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
)

const (
	pageSize = 1000 // of a list of tags, where the registry has pages
	maxPages = 100  // of a list of tags or referrers
	maxPage  = format.MaxManifest
)

// Accepted are the manifests that a registry may answer with: all, so that an error can say what they are.
var Accepted = []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, format.DockerManifestType,
	format.DockerListType}

// A Credential is for a registry: a user and a password, or an identity token.
type Credential struct{ User, Password, Token string }

// A Repository is one of a registry. It is safe for concurrent use.
type Repository struct {
	HTTP *http.Client // with a guard.Guard and guard.Follow

	auth *auth.Client
	oras *oras.Repository
}

// New returns the client of a repository that references name HOST[:PORT]/NAME. credential is asked when the registry
// wants to know; nil, or a zero Credential, is nothing.
func New(host, name string, client *http.Client, credential func(context.Context) (Credential, error)) *Repository {
	ref := registry.Reference{Registry: host, Repository: name}
	a := &auth.Client{Client: client, Cache: auth.NewCache(), ClientID: "rye", BlockedRealmPrefixes: forbidden(),
		Header: http.Header{"User-Agent": {"rye"}}}
	a.Credential = func(ctx context.Context, asks string) (auth.Credential, error) {
		if credential == nil || !strings.EqualFold(asks, ref.Host()) {
			return auth.EmptyCredential, nil
		}
		c, err := credential(ctx)
		return auth.Credential{Username: c.User, Password: c.Password, RefreshToken: c.Token}, err
	}
	return &Repository{HTTP: client, auth: a, oras: &oras.Repository{Client: a, Reference: ref, SkipReferrersGC: true,
		MaxMetadataBytes: maxPage,
		TagListPageSize:  pageSize, TagListMaxPages: maxPages, ReferrerListMaxPages: maxPages}}
}

// forbidden are the networks in which a registry may not name a token service, unless it is its own host.
func forbidden() []netip.Prefix {
	return append(auth.DefaultBlockedRealmPrefixes(), auth.PrivateRealmPrefixes()...)
}

// Host is where the registry is on the network: docker.io has another name there.
func (r *Repository) Host() string { return r.oras.Reference.Host() }

// UsePlainHTTP makes later requests without TLS. It is called before other methods.
func (r *Repository) UsePlainHTTP() { r.oras.PlainHTTP = true }

// ByTag reports whether the registry keeps its lists of referrers under tags. It is called after Referrers or
// PutManifest has found out.
func (r *Repository) ByTag() bool { return r.oras.SetReferrersCapability(true) != nil }

// Request makes a request about the repository that reads, and that Do sends.
func (r *Repository) Request(ctx context.Context, method, path string) (*http.Request, error) {
	scheme := "https"
	if r.oras.PlainHTTP {
		scheme = "http"
	}
	ctx = auth.AppendRepositoryScope(ctx, r.oras.Reference, auth.ActionPull)
	return http.NewRequestWithContext(ctx, method, scheme+"://"+r.Host()+"/v2/"+r.oras.Reference.Repository+path, nil)
}

// Do sends a request, with the credentials that its host asks for. An answer 401 is the last one.
func (r *Repository) Do(req *http.Request) (*http.Response, error) {
	resp, err := r.auth.Do(req)
	return resp, fromOras(err)
}

// PutBlob sends a blob.
func (r *Repository) PutBlob(ctx context.Context, d ocispec.Descriptor, b []byte) error {
	return fromOras(r.oras.Blobs().Push(ctx, d, bytes.NewReader(b)))
}

// PutManifest sends a manifest, and gives it a tag; without one it is known by its digest. What it refers to then has
// it among its referrers.
func (r *Repository) PutManifest(ctx context.Context, d ocispec.Descriptor, b []byte, tag string) error {
	if tag == "" {
		return fromOras(r.oras.Manifests().Push(ctx, d, bytes.NewReader(b)))
	}
	return fromOras(r.oras.Manifests().PushReference(ctx, d, bytes.NewReader(b), tag))
}

// Tags gives each page of the tags.
func (r *Repository) Tags(ctx context.Context, take func(tags []string) error) error {
	return fromOras(r.oras.Tags(ctx, "", take))
}

// Referrers gives each page of what refers to a manifest, and reports whether there are more pages than may be read.
func (r *Repository) Referrers(ctx context.Context, subject string,
	take func([]ocispec.Descriptor) error) (more bool, err error) {
	err = r.oras.Referrers(ctx, ocispec.Descriptor{Digest: digest.Digest(subject)}, "", take)
	if errors.Is(err, errdef.ErrTooManyPages) {
		return true, nil
	}
	return false, fromOras(err)
}

// fromOras turns the errors of oras-go that callers tell apart into those of packages guard and fault.
func fromOras(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer):
		e := &guard.AnswerError{Status: answer.StatusCode}
		for _, one := range answer.Errors {
			e.Errors = append(e.Errors, guard.Said{Code: one.Code, Message: one.Message})
		}
		return e
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return fault.New(fault.AuthRequired, "the registry requires a user name and password")
	case errors.Is(err, errdef.ErrTooManyPages):
		return fault.New(fault.Limit, "the list has too many pages")
	case errors.Is(err, errdef.ErrSizeExceedsLimit):
		return fault.New(fault.Limit, "the list has more than %d bytes", maxPage)
	}
	return err
}
