package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/oci/format"
	"github.com/rye-build/rye/cas/oci/guard"
	"github.com/rye-build/rye/cas/oci/spec"
)

const (
	pageSize = 1000 // of a list of tags, where the registry has pages
	maxPages = 100  // of a list of tags or referrers
	maxPage  = format.MaxManifest
)

// Accepted are the manifests that a registry may answer with: all, so that it is said what they are.
var Accepted = []string{spec.ManifestType, spec.IndexType, spec.DockerManifestType, spec.DockerListType}

// How a registry lists referrers, as far as that is known.
const (
	unknown int32 = iota
	byAPI
	byTag
)

// ByTag reports whether the registry keeps its lists of referrers under tags, as far as that is known by now.
func (r *Repository) ByTag() bool { return r.lists.Load() == byTag }

// Tags gives each page of the tags.
func (r *Repository) Tags(ctx context.Context, take func(tags []string) error) error {
	more, err := r.pages(ctx, "/tags/list", pageSize, func(resp *http.Response) error {
		var page struct {
			Tags []string `json:"tags"`
		}
		if resp.StatusCode != http.StatusOK {
			return guard.Answer(resp)
		}
		if err := decode(resp.Body, maxPage, &page); err != nil {
			return err
		}
		return take(page.Tags)
	})
	if more {
		return fault.New(fault.Limit, "the list has too many pages")
	}
	return err
}

// Referrers gives each page of what refers to a manifest, and reports whether there are more pages than may be read.
func (r *Repository) Referrers(ctx context.Context, subject string, take func([]spec.Descriptor) error) (more bool,
	err error) {
	was := r.lists.Load()
	if was != byTag {
		more, err = r.pages(ctx, "/referrers/"+subject, 0, func(resp *http.Response) error {
			return referrers(resp, take)
		})
		if was == unknown && err == nil && !more {
			r.lists.CompareAndSwap(unknown, byAPI)
		}
		if was == byAPI || !errors.Is(err, errUnsupported) {
			return more, err
		}
		r.lists.CompareAndSwap(unknown, byTag)
	}
	all, err := r.listed(ctx, subject)
	if err != nil || len(all) == 0 {
		return false, err
	}
	return false, take(all)
}

var errUnsupported = errors.New("unsupported")

// referrers reads a page of the Referrers API.
func referrers(resp *http.Response, take func([]spec.Descriptor) error) error {
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		err := guard.Answer(resp)
		if len(err.Errors) == 1 && err.Errors[0].Code == "NAME_UNKNOWN" { // says nothing about the API
			return err
		}
		return fmt.Errorf("the registry has no list of referrers: %w", errUnsupported)
	default:
		return guard.Answer(resp)
	}
	if kind := resp.Header.Get("Content-Type"); kind != spec.IndexType {
		return fmt.Errorf("the list of referrers is of type %s: %w", kind, errUnsupported)
	}
	var page spec.Index
	if err := decode(resp.Body, maxPage, &page); err != nil || len(page.Manifests) == 0 {
		return err
	}
	return take(page.Manifests)
}

// decode reads JSON, and of what is longer a part.
func decode(r io.Reader, most int64, v any) error {
	if err := json.NewDecoder(io.LimitReader(r, most)).Decode(v); err != nil {
		return fmt.Errorf("it can't be decoded: %w", err)
	}
	return nil
}

// pages asks for a list page by page, and reports whether there are too many.
func (r *Repository) pages(ctx context.Context, path string, size int, take func(*http.Response) error) (more bool,
	err error) {
	req, err := r.Request(ctx, http.MethodGet, path, nil)
	for n := 0; err == nil && n < maxPages; n++ {
		if size > 0 {
			query := req.URL.Query()
			query.Set("n", strconv.Itoa(size))
			req.URL.RawQuery = query.Encode()
		}
		var next *url.URL
		if next, err = r.page(req, take); err != nil || next == nil {
			return false, err
		}
		req, err = http.NewRequestWithContext(ctx, http.MethodGet, next.String(), nil)
	}
	return err == nil, err
}

func (r *Repository) page(req *http.Request, take func(*http.Response) error) (next *url.URL, err error) {
	resp, err := r.Do(req, Pull)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := take(resp); err != nil {
		return nil, err
	}
	return follow(resp.Request.URL, resp.Header.Get("Link"))
}

// follow is where a Link leads, if there is one: to the same host, since a list is no reason to ask another.
func follow(from *url.URL, link string) (*url.URL, error) {
	if link == "" {
		return nil, nil
	}
	rest, ok := strings.CutPrefix(link, "<")
	if !ok {
		return nil, fmt.Errorf("the link %q to the next page doesn't begin with <", link)
	}
	to, _, ok := strings.Cut(rest, ">")
	if !ok {
		return nil, fmt.Errorf("the link %q to the next page has no >", link)
	}
	next, err := from.Parse(to)
	if err != nil {
		return nil, err
	}
	if guard.Origin(next) != guard.Origin(from) {
		return nil, fmt.Errorf("the next page %q is not on the server of %q", to, from)
	}
	return next, nil
}

// tagOf is the tag that keeps what refers to a manifest.
func tagOf(subject string) string { return strings.Replace(subject, ":", "-", 1) }

// listed reads what refers to a manifest from the list under a tag. None is there where the tag is missing or names
// something else.
func (r *Repository) listed(ctx context.Context, subject string) ([]spec.Descriptor, error) {
	req, err := r.Request(ctx, http.MethodGet, "/manifests/"+tagOf(subject), nil)
	if err != nil {
		return nil, err
	}
	req.Header["Accept"] = Accepted
	resp, err := r.Do(req, Pull)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return nil, nil
	default:
		return nil, guard.Answer(resp)
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return nil, fmt.Errorf("invalid Content-Type: %w", err)
	}
	if kind != spec.IndexType {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err == nil && len(b) > maxPage {
		return nil, fault.New(fault.Limit, "the list is too long")
	}
	if err == nil && format.Sum(b) == subject { // some registries resolve the tag to the digest
		return nil, nil
	}
	if said := resp.Header.Get("Docker-Content-Digest"); err == nil && format.ValidDigest(said) &&
		format.Sum(b) != said {
		err = errors.New("the digest is another one")
	}
	var list spec.Index
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the list under the tag %s can't be decoded: %w", tagOf(subject), err)
	}
	return list.Manifests, nil
}

// referrer is how a list has a manifest, and the digest of what that refers to, if it does.
func referrer(d spec.Descriptor, b []byte) (entry spec.Descriptor, subject string, err error) {
	var in spec.Manifest
	if err := json.Unmarshal(b, &in); err != nil {
		return d, "", fmt.Errorf("the manifest %s of type %s can't be decoded: %w", d.Digest, d.MediaType, err)
	}
	if in.Subject == nil {
		return d, "", nil
	}
	if !format.ValidDigest(in.Subject.Digest) {
		return d, "", fmt.Errorf("the subject %s is not a valid digest", in.Subject.Digest)
	}
	if d.ArtifactType = in.ArtifactType; d.ArtifactType == "" {
		d.ArtifactType = in.Config.MediaType
	}
	d.Annotations = in.Annotations
	return d, in.Subject.Digest, nil
}

// list puts an entry into the list under a tag, and takes out what is there twice or empty.
func (r *Repository) list(ctx context.Context, entry spec.Descriptor, subject string) error {
	r.listing.Lock()
	defer r.listing.Unlock()
	old, err := r.listed(ctx, subject)
	if err != nil {
		return err
	}
	type id struct {
		kind, digest string
		size         int64
	}
	had := map[id]bool{{}: true}
	all := []spec.Descriptor{}
	add := func(d spec.Descriptor) {
		if key := (id{d.MediaType, d.Digest, d.Size}); !had[key] {
			had[key], all = true, append(all, d)
		}
	}
	for _, d := range old {
		add(d)
	}
	clean := len(all) == len(old)
	if add(entry); clean && len(all) == len(old) {
		return nil
	}
	text, err := json.Marshal(spec.Index{SchemaVersion: 2, MediaType: spec.IndexType, Manifests: all})
	if err != nil {
		return err
	}
	if err := r.putManifest(ctx, format.Blob(spec.IndexType, text), text, tagOf(subject)); err != nil {
		return fmt.Errorf("the list under the tag %s can't be written: %w", tagOf(subject), err)
	}
	return nil
}
