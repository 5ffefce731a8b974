package door

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/blobs"
	"github.com/rye-build/rye/exec/serve"
	client "github.com/rye-build/rye/lock/registry"
	"github.com/rye-build/rye/manifest/tlog"
)

// A Door answers requests for one registry.
type Door struct {
	Registry *registry.Registry
	Blobs    blobs.Store
	Origin   string // by which clients reach the registry: https://HOST
	Warn     func(error)
	Metrics  *registry.Metrics // the registry's
	Scraper  string            // the token that reads /metrics; empty: only this machine does
	Proxied  bool              // a proxy on this machine passes on requests of others

	catalog catalog
}

// maxBody is the most bytes of a request that isn't an archive.
const maxBody = 64 << 10

// A Server takes routes, as *serve.Server does.
type Server interface {
	Open(pattern string, handler http.Handler)
}

// Register adds the routes to a server.
func (d *Door) Register(s Server) {
	for _, pattern := range []string{"/" + client.DescriptionFile, "/" + client.AdvisoriesFile, "/index/",
		"/archives/", "/proofs/", "/documents/", "/rotations/",
		"/" + client.LogDir + "/"} {
		s.Open("GET "+pattern, d.counted(pattern, http.HandlerFunc(d.public)))
	}
	const below = "/" + client.PrivateDir + "/{private}"
	s.Open("GET "+below+"/{file...}", d.counted(below, http.HandlerFunc(d.private)))
	s.Open("GET /metrics", http.HandlerFunc(d.metrics))
	for pattern, route := range map[string]func(*registry.Caller, *http.Request) (any, error){
		"POST /v1/publish":               d.publish,
		"POST /v1/withdraw":              d.withdraw,
		"POST /v1/seen":                  d.seen,
		"GET /v1/bundles/{id...}":        d.bundle,
		"GET /v1/search":                 d.search,
		"GET /v1/spaces/{name}":          d.space,
		"POST /v1/spaces/{name}":         d.claim,
		"POST /v1/spaces/{name}/changes": d.change,
		"GET /v1/publishers/{id...}":     d.publishers,
		"POST /v1/publishers/{id...}":    d.publisher,
		"POST /v1/exchange":              d.exchange,
		"POST /v1/staged":                d.stage,
		"POST /v1/staged/{id}":           d.stage,
		"GET /v1/staged":                 d.staged,
		"GET /v1/staged/{id}":            d.oneStaged,
		"POST /v1/staged/{id}/approve":   d.approve,
		"POST /v1/staged/{id}/cosign":    d.cosign,
		"DELETE /v1/staged/{id}":         d.reject,
		"GET /v1/whoami":                 d.whoami,
		"GET /v1/tokens":                 d.tokens,
		"POST /v1/tokens":                d.makeToken,
		"DELETE /v1/tokens/{id}":         d.removeToken,
	} {
		d.openAPI(s, pattern, d.api(route))
	}
	for pattern, show := range map[string]http.HandlerFunc{
		"GET /.well-known/ai-catalog.json": d.aiCatalog,
		"GET " + skillsPath + "index.json": d.agentSkills,
		"GET " + skillsPath + "{skill...}": d.agentSkill,
	} {
		s.Open(pattern, d.counted(pattern, show))
	}
	d.openAPI(s, "GET /v1/staged/{id}/archives/{archive}", http.HandlerFunc(d.stagedArchive))
	d.openAPI(s, "POST /v1/device", d.oauth(d.deviceCode))
	d.openAPI(s, "POST /v1/token", d.oauth(d.deviceToken))
	d.registerPages(s)
}

// openAPI adds a route of the API, also below the address of each private namespace, whether or not there is one: a
// client needs one address for its files and for this.
func (d *Door) openAPI(s Server, pattern string, handler http.Handler) {
	method, path, _ := strings.Cut(pattern, " ")
	for _, at := range []string{path, "/" + client.PrivateDir + "/{private}" + path} {
		s.Open(method+" "+at, d.counted(pattern, handler))
	}
}

// public serves the static files.
func (d *Door) public(w http.ResponseWriter, r *http.Request) {
	d.file(w, r, "", strings.TrimPrefix(r.URL.Path, "/"))
}

// private serves the files of private namespaces to those who may see them. To others none is there, whether or not
// the namespace exists: the registry does the same work for both.
func (d *Door) private(w http.ResponseWriter, r *http.Request) {
	by, err := d.caller(r)
	if err != nil {
		d.fail(w, err)
		return
	}
	space := r.PathValue("private")
	sees, err := d.Registry.Sees(r.Context(), by, space)
	switch {
	case err != nil:
		d.fail(w, err)
	case !sees:
		http.NotFound(w, r)
	default:
		d.file(w, r, client.PrivateDir+"/"+space+"/", r.PathValue("file"))
	}
}

// file serves a static file; dir is the directory of a private namespace's.
func (d *Door) file(w http.ResponseWriter, r *http.Request, dir, name string) {
	if portable.Check(dir+name) != nil || r.URL.RawQuery != "" {
		http.NotFound(w, r)
		return
	}
	file, err := d.Blobs.Open(r.Context(), dir+name)
	if errors.Is(err, fs.ErrNotExist) {
		http.NotFound(w, r)
		return
	}
	if err != nil {
		d.fail(w, err)
		return
	}
	defer file.Close()
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-cache") // ask again, with the ETag
	header.Set("ETag", strconv.Quote(strings.Trim(file.ETag, `"`)))
	switch top, _, _ := strings.Cut(name, "/"); {
	case top == "archives", top == "documents", strings.HasPrefix(name, client.LogDir+"/tile/"):
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		header.Set("Content-Type", "application/octet-stream")
	default:
		header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if dir != "" { // no cache but the reader's own keeps it
		header.Set("Cache-Control", "private, no-cache")
		header.Set("Vary", "Authorization")
	}
	http.ServeContent(w, r, "", file.Modified, file)
}

// api returns the handler of a route: it finds the caller, and shows what the route answers.
func (d *Door) api(route func(*registry.Caller, *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &patient{r.Body, http.NewResponseController(w)}
		answer, err := func() (any, error) {
			caller, err := d.caller(r)
			if err != nil {
				return nil, err
			}
			return route(caller, r)
		}()
		if err != nil {
			d.fail(w, err)
			return
		}
		serve.Answer(w, http.StatusOK, map[string]any{"success": true, "data": answer})
	})
}

// A patient body has a deadline for each part, not for the whole: a client that stops sending loses its place.
type patient struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	if err := p.control.SetReadDeadline(time.Now().Add(serve.BodyTime)); err != nil {
		return 0, err
	}
	return p.ReadCloser.Read(b)
}

// caller returns who makes a request; nil for a request without a token.
func (d *Door) caller(r *http.Request) (*registry.Caller, error) {
	if len(r.Header.Values("Authorization")) == 0 {
		return nil, nil
	}
	secret, err := serve.Bearer(r)
	if err != nil {
		return nil, err
	}
	return d.Registry.Caller(r.Context(), secret)
}

// statuses are the HTTP statuses of codes. Others are the server's own faults.
var statuses = map[fault.Code]int{
	fault.AuthRequired: http.StatusUnauthorized, fault.AuthFailed: http.StatusUnauthorized,
	fault.Denied: http.StatusForbidden, fault.Policy: http.StatusForbidden, fault.Approval: http.StatusForbidden,
	fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict, fault.Rollback: http.StatusConflict,
	fault.Limit: http.StatusRequestEntityTooLarge, fault.Validation: http.StatusBadRequest,
	fault.Parsing: http.StatusUnprocessableEntity, fault.Unsigned: http.StatusUnprocessableEntity,
	fault.SignatureInvalid: http.StatusUnprocessableEntity, fault.Integrity: http.StatusUnprocessableEntity,
	fault.Expired: http.StatusUnprocessableEntity, fault.BelowThreshold: http.StatusUnprocessableEntity,
	fault.RateLimited: http.StatusTooManyRequests, fault.Busy: http.StatusServiceUnavailable,
	fault.Unavailable: http.StatusServiceUnavailable, fault.SessionExpired: http.StatusForbidden,
}

// fail shows a refusal. What went wrong inside the server stands in its own log.
func (d *Door) fail(w http.ResponseWriter, err error) {
	status, known := statuses[fault.CodeOf(err)]
	if !known {
		d.Warn(err)
		status, err = http.StatusInternalServerError, fault.New(fault.Registry, "the registry failed")
	}
	serve.Refuse(w, status, err)
}

// read decodes the body of a request.
func read(r *http.Request, into any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil || len(b) > maxBody {
		return fault.New(fault.Validation, "the request has not arrived, or has more than %d bytes", maxBody).From(err)
	}
	decoder := json.NewDecoder(strings.NewReader(string(b)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fault.New(fault.Validation, "the request is not valid: %v", err).From(err)
	}
	return nil
}

func (d *Door) publish(by *registry.Caller, r *http.Request) (any, error) {
	return d.Registry.Publish(r.Context(), by, r.Body)
}

func (d *Door) withdraw(by *registry.Caller, r *http.Request) (any, error) {
	var request client.Withdrawal
	if err := read(r, &request); err != nil {
		return nil, err
	}
	return d.Registry.Withdraw(r.Context(), by, request.Bundle, request.Version, request.Unpublish)
}

// seen takes a checkpoint, or a proof that has one, that a client has seen. For the public log it needs no token: only
// what the log has signed counts.
func (d *Door) seen(by *registry.Caller, r *http.Request) (any, error) {
	text, err := io.ReadAll(io.LimitReader(r.Body, tlog.MaxProof+1))
	if err != nil {
		return nil, fault.New(fault.Validation, "the checkpoint has not arrived").From(err)
	}
	return d.Registry.Seen(r.Context(), by, text)
}

func (d *Door) bundle(by *registry.Caller, r *http.Request) (any, error) {
	id := r.PathValue("id")
	versions, err := d.Registry.Versions(r.Context(), by, id)
	if err != nil {
		return nil, err
	}
	space, err := d.Registry.Space(r.Context(), by, registry.SpaceOf(id))
	if err != nil {
		return nil, err
	}
	return map[string]any{"bundle": id, "owners": space.Owners, "versions": versions}, nil
}

func (d *Door) search(by *registry.Caller, r *http.Request) (any, error) {
	found, err := d.Registry.Search(r.Context(), by, r.URL.Query().Get("q"), r.PathValue("private"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"hits": found}, nil
}

func (d *Door) space(by *registry.Caller, r *http.Request) (any, error) {
	return d.Registry.Space(r.Context(), by, r.PathValue("name"))
}

func (d *Door) claim(by *registry.Caller, r *http.Request) (any, error) {
	var request client.Claim
	if err := read(r, &request); err != nil {
		return nil, err
	}
	return d.Registry.Claim(r.Context(), by, r.PathValue("name"), request.Visibility)
}

func (d *Door) change(by *registry.Caller, r *http.Request) (any, error) {
	var request client.Change
	if err := read(r, &request); err != nil {
		return nil, err
	}
	return d.Registry.Change(r.Context(), by, r.PathValue("name"), request)
}

func (d *Door) publishers(by *registry.Caller, r *http.Request) (any, error) {
	all, err := d.Registry.Publishers(r.Context(), by, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return map[string]any{"publishers": all}, nil
}

func (d *Door) publisher(by *registry.Caller, r *http.Request) (any, error) {
	var request client.PublisherChange
	if err := read(r, &request); err != nil {
		return nil, err
	}
	return d.Registry.SetPublisher(r.Context(), by, r.PathValue("id"), request)
}

func (d *Door) exchange(_ *registry.Caller, r *http.Request) (any, error) {
	var request client.Exchange
	if err := read(r, &request); err != nil {
		return nil, err
	}
	secret, token, err := d.Registry.Trust(r.Context(), request)
	if err != nil {
		return nil, err
	}
	return map[string]any{"secret": secret, "token": token}, nil
}

func (d *Door) stage(by *registry.Caller, r *http.Request) (any, error) {
	return d.Registry.Stage(r.Context(), by, r.PathValue("id"), r.Body)
}

func (d *Door) staged(by *registry.Caller, r *http.Request) (any, error) {
	all, err := d.Registry.AllStaged(r.Context(), by)
	if err != nil {
		return nil, err
	}
	return map[string]any{"staged": all}, nil
}

func (d *Door) oneStaged(by *registry.Caller, r *http.Request) (any, error) {
	return d.Registry.Staged(r.Context(), by, r.PathValue("id"))
}

func (d *Door) approve(by *registry.Caller, r *http.Request) (any, error) {
	var request client.Answer
	if err := read(r, &request); err != nil {
		return nil, err
	}
	return d.Registry.Approve(r.Context(), by, r.PathValue("id"), request.Digest)
}

func (d *Door) cosign(by *registry.Caller, r *http.Request) (any, error) {
	return d.Registry.Cosign(r.Context(), by, r.PathValue("id"), r.Body)
}

func (d *Door) reject(by *registry.Caller, r *http.Request) (any, error) {
	id := r.PathValue("id")
	return map[string]any{"rejected": id}, d.Registry.Reject(r.Context(), by, id)
}

// stagedArchive shows an archive to those who may approve it.
func (d *Door) stagedArchive(w http.ResponseWriter, r *http.Request) {
	file, err := func() (*blobs.File, error) {
		caller, err := d.caller(r)
		if err != nil {
			return nil, err
		}
		digest, err := cas.ParseDigest("blake3:" + r.PathValue("archive"))
		if err != nil {
			return nil, fault.New(fault.NotFound, "there is no such archive").From(err)
		}
		return d.Registry.StagedArchive(r.Context(), caller, r.PathValue("id"), digest)
	}()
	if err != nil {
		d.fail(w, err)
		return
	}
	defer file.Close()
	header := w.Header()
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", file.Modified, file)
}

var errNoToken error = fault.New(fault.AuthRequired, "the request has no token").Try("rye login")

func (d *Door) whoami(by *registry.Caller, _ *http.Request) (any, error) {
	if by == nil {
		return nil, errNoToken
	}
	return map[string]any{"account": by.Account, "token": by.Token}, nil
}

func (d *Door) tokens(by *registry.Caller, r *http.Request) (any, error) {
	if by == nil {
		return nil, errNoToken
	}
	all, err := d.Registry.TokensFor(r.Context(), by)
	if err != nil {
		return nil, err
	}
	return map[string]any{"tokens": all}, nil
}

func (d *Door) makeToken(by *registry.Caller, r *http.Request) (any, error) {
	var request client.NewToken
	if err := read(r, &request); err != nil {
		return nil, err
	}
	t := registry.Token{Label: request.Label, Names: request.Names, Expires: request.Expires}
	for _, scope := range request.Scopes {
		t.Scopes = append(t.Scopes, registry.Scope(scope))
	}
	secret, made, err := d.Registry.MakeToken(r.Context(), by, t)
	if err != nil {
		return nil, err
	}
	return map[string]any{"secret": secret, "token": made}, nil
}

func (d *Door) removeToken(by *registry.Caller, r *http.Request) (any, error) {
	if by == nil {
		return nil, errNoToken
	}
	id := r.PathValue("id")
	return map[string]any{"removed": id}, d.Registry.EndToken(r.Context(), by, id)
}
