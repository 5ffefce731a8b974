package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/lock/web"
)

// A Session is an account's way to change what a registry has. Its answers are the registry's word: nothing of them is
// believed by a lock.
type Session struct {
	URL    string
	Token  string // "" for what needs none
	Client *web.Client
}

// maxAnswer is the most bytes of an answer.
const maxAnswer = 16 << 20

// A Published is a version as a registry's answers have it.
type Published struct {
	Bundle   string     `json:"bundle"`
	Version  string     `json:"version"`
	Manifest cas.Digest `json:"manifest"`
	Archive  cas.Digest `json:"archive"`
	Size     int64      `json:"size"`
	Requires []string   `json:"requires,omitempty"`
	License  string     `json:"license,omitempty"`
	About    string     `json:"about,omitempty"`
	Signers  []string   `json:"signers"`
	By       string     `json:"by"`
	Time     time.Time  `json:"time"`
	Leaf     int64      `json:"leaf"`
	Yanked   int64      `json:"yanked,omitempty"`

	Unpublished int64 `json:"unpublished,omitempty"`
	Private     bool  `json:"private,omitempty"` // in the log of a private namespace
}

// A Bundle is what a registry says of a bundle.
type Bundle struct {
	Bundle   string      `json:"bundle"`
	Owners   []string    `json:"owners"`
	Versions []Published `json:"versions"`
}

// A Space is a namespace.
type Space struct {
	Name    string    `json:"name"`
	Owners  []string  `json:"owners"`
	Claimed time.Time `json:"claimed"`

	Approvals   int      `json:"approvals,omitempty"`    // how many other owners must approve what is staged
	TrustedOnly []string `json:"trusted_only,omitempty"` // bundles that only their pipelines may publish
	Private     bool     `json:"private,omitempty"`      // only tokens of its owners read it
	Staged      *Staged  `json:"staged,omitempty"`       // a change that waits for approvals
}

// A Staged waits for the approval of owners: versions to release together, or a change of a namespace.
type Staged struct {
	ID        string      `json:"id"`
	Space     string      `json:"space"`
	By        string      `json:"by"`
	Created   time.Time   `json:"created"`
	Expires   time.Time   `json:"expires"`
	Digest    cas.Digest  `json:"digest"`
	Versions  []Published `json:"versions,omitempty"`
	Change    *Change     `json:"change,omitempty"`
	Approvals []Approval  `json:"approvals"`
	Needs     int         `json:"needs"`
	Done      bool        `json:"done,omitempty"`
}

// An Approval is an owner's consent to what had a digest.
type Approval struct {
	Account string     `json:"account"`
	Digest  cas.Digest `json:"digest"`
	Time    time.Time  `json:"time"`
}

// Shown returns the digest of what is shown of it: what an approval is bound to. It is computed here, so that no one
// approves what they didn't see.
func (s *Staged) Shown() (cas.Digest, error) {
	if s.Change != nil {
		return s.Change.Digest(s.Space)
	}
	parts := make([]Part, len(s.Versions))
	for i, v := range s.Versions {
		parts[i] = Part{v.Bundle, v.Version, v.Archive}
	}
	return ReleaseDigest(parts), nil
}

// A Token is a token of an account; its secret isn't among what a registry keeps.
type Token struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Label   string    `json:"label"`
	Scopes  []string  `json:"scopes"`
	Names   []string  `json:"names,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// A Hit is a bundle that a search found.
type Hit struct {
	Bundle  string `json:"bundle"`
	Version string `json:"version"`
	About   string `json:"about,omitempty"`
	License string `json:"license,omitempty"`
	Private bool   `json:"private,omitempty"` // of a private namespace
}

// Publish sends an archive.
func (s *Session) Publish(ctx context.Context, archive io.Reader, size int64) (*Published, error) {
	return answerOf[Published](s.archive(ctx, "publish", archive, size))
}

func (s *Session) archive(ctx context.Context, route string, archive io.Reader, size int64) (json.RawMessage, error) {
	return s.send(ctx, web.Request{Method: "POST", Address: s.URL + "/v1/" + route, Type: "application/zstd",
		Body: archive, Size: size})
}

// Withdraw yanks a version or unpublishes it.
func (s *Session) Withdraw(ctx context.Context, w Withdrawal) (*Published, error) {
	return answerOf[Published](s.post(ctx, "withdraw", w))
}

// Claim makes the account the owner of a namespace.
func (s *Session) Claim(ctx context.Context, name string, c Claim) (*Space, error) {
	return answerOf[Space](s.post(ctx, "spaces/"+url.PathEscape(name), c))
}

// Change changes a namespace, or stages the change where others must approve.
func (s *Session) Change(ctx context.Context, name string, change Change) (*Space, error) {
	return answerOf[Space](s.post(ctx, "spaces/"+url.PathEscape(name)+"/changes", change))
}

// Publishers returns the pipelines that may publish a bundle.
func (s *Session) Publishers(ctx context.Context, bundle string) ([]Binding, error) {
	found, err := answerOf[struct{ Publishers []Binding }](s.get(ctx, "publishers/"+bundle))
	if err != nil {
		return nil, err
	}
	return found.Publishers, nil
}

// SetPublisher binds a pipeline to a bundle, or ends a binding.
func (s *Session) SetPublisher(ctx context.Context, bundle string, change PublisherChange) (*Space, error) {
	return answerOf[Space](s.post(ctx, "publishers/"+bundle, change))
}

// Exchange has the session use a token that the registry gives for that of a pipeline's run.
func (s *Session) Exchange(ctx context.Context, e Exchange) (*Token, error) {
	found, err := answerOf[struct {
		Secret string
		Token  Token
	}](s.post(ctx, "exchange", e))
	if err != nil {
		return nil, err
	}
	s.Token = found.Secret
	return &found.Token, nil
}

// Stage sends an archive that waits for approvals, alone or with what was staged under an id.
func (s *Session) Stage(ctx context.Context, id string, archive io.Reader, size int64) (*Staged, error) {
	route := "staged"
	if id != "" {
		route += "/" + url.PathEscape(id)
	}
	return answerOf[Staged](s.archive(ctx, route, archive, size))
}

// AllStaged returns what waits and the account may see.
func (s *Session) AllStaged(ctx context.Context) ([]Staged, error) {
	found, err := answerOf[struct{ Staged []Staged }](s.get(ctx, "staged"))
	if err != nil {
		return nil, err
	}
	return found.Staged, nil
}

// Staged returns what is staged under an id.
func (s *Session) Staged(ctx context.Context, id string) (*Staged, error) {
	return answerOf[Staged](s.get(ctx, "staged/"+url.PathEscape(id)))
}

// StagedArchive opens an archive that is staged. The reader ends in an error if the bytes aren't those of the version.
func (s *Session) StagedArchive(ctx context.Context, id string, v *Published) (io.ReadCloser, error) {
	name := strings.TrimPrefix(v.Archive.String(), "blake3:")
	body, err := s.Client.Download(ctx, web.Request{Method: "GET", Token: s.Token,
		Address: s.URL + "/v1/staged/" + url.PathEscape(id) + "/archives/" + name}, v.Size)
	if err != nil {
		return nil, err
	}
	return cas.Verify(cas.Info{ID: cas.ID{Kind: cas.Blob, Digest: v.Archive}, Size: v.Size}, body), nil
}

// Approve approves what has a digest. The last approval that is needed has it done.
func (s *Session) Approve(ctx context.Context, id string, digest cas.Digest) (*Staged, error) {
	return answerOf[Staged](s.post(ctx, "staged/"+url.PathEscape(id)+"/approve", Answer{digest}))
}

// Cosign sends an archive of a staged version with more signatures.
func (s *Session) Cosign(ctx context.Context, id string, archive io.Reader, size int64) (*Staged, error) {
	return answerOf[Staged](s.archive(ctx, "staged/"+url.PathEscape(id)+"/cosign", archive, size))
}

// Reject ends what is staged.
func (s *Session) Reject(ctx context.Context, id string) error {
	_, err := s.send(ctx, web.Request{Method: "DELETE", Address: s.URL + "/v1/staged/" + url.PathEscape(id)})
	return err
}

// Space returns a namespace.
func (s *Session) Space(ctx context.Context, name string) (*Space, error) {
	return answerOf[Space](s.get(ctx, "spaces/"+url.PathEscape(name)))
}

// Bundle returns what the registry says of a bundle.
func (s *Session) Bundle(ctx context.Context, id string) (*Bundle, error) {
	return answerOf[Bundle](s.get(ctx, "bundles/"+id))
}

// Search returns the bundles that a query finds.
func (s *Session) Search(ctx context.Context, query string) ([]Hit, error) {
	found, err := answerOf[struct{ Hits []Hit }](s.get(ctx, "search?q="+url.QueryEscape(query)))
	if err != nil {
		return nil, err
	}
	return found.Hits, nil
}

// WhoAmI returns the token of the session, as the registry knows it.
func (s *Session) WhoAmI(ctx context.Context) (*Token, error) {
	found, err := answerOf[struct{ Token Token }](s.get(ctx, "whoami"))
	if err != nil {
		return nil, err
	}
	return &found.Token, nil
}

// Tokens returns the tokens of the account.
func (s *Session) Tokens(ctx context.Context) ([]Token, error) {
	found, err := answerOf[struct{ Tokens []Token }](s.get(ctx, "tokens"))
	if err != nil {
		return nil, err
	}
	return found.Tokens, nil
}

// AddToken makes a token of the account, and returns its secret, which is shown once.
func (s *Session) AddToken(ctx context.Context, wanted NewToken) (secret string, made *Token, err error) {
	answer, err := answerOf[struct {
		Secret string
		Token  Token
	}](s.post(ctx, "tokens", wanted))
	if err != nil {
		return "", nil, err
	}
	return answer.Secret, &answer.Token, nil
}

// RemoveToken ends a token.
func (s *Session) RemoveToken(ctx context.Context, id string) error {
	_, err := s.send(ctx, web.Request{Method: "DELETE", Address: s.URL + "/v1/tokens/" + url.PathEscape(id)})
	return err
}

func (s *Session) get(ctx context.Context, route string) (json.RawMessage, error) {
	return s.send(ctx, web.Request{Method: "GET", Address: s.URL + "/v1/" + route})
}

func (s *Session) post(ctx context.Context, route string, body any) (json.RawMessage, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return s.send(ctx, web.Request{Method: "POST", Address: s.URL + "/v1/" + route, Type: "application/json",
		Body: bytes.NewReader(b), Size: int64(len(b))})
}

// send sends a request, and returns the data of the answer or the registry's refusal.
func (s *Session) send(ctx context.Context, r web.Request) (json.RawMessage, error) {
	r.Token = s.Token
	status, text, err := s.Client.Send(ctx, r, maxAnswer)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Success *bool           `json:"success"`
		Data    json.RawMessage `json:"data"`
		Error   *fault.Object   `json:"error"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Success == nil {
		return nil, fault.New(fault.Registry, "%q doesn't answer as a registry does (HTTP %d)", s.URL, status).
			On("url", s.URL).On("status", status)
	}
	if *answer.Success {
		return answer.Data, nil
	}
	return nil, s.refusal(status, answer.Error)
}

// refusal returns the registry's refusal as an error of this program. Its text is a stranger's.
func (s *Session) refusal(status int, o *fault.Object) error {
	if o == nil || !fault.Known(o.Code) {
		return fault.New(fault.Registry, "the registry %q refused (HTTP %d)", s.URL, status).On("url", s.URL).
			On("status", status)
	}
	f := fault.New(o.Code, "the registry: %s", fault.Clip(o.Message, 500)).On("registry", s.URL).On("status", status)
	if details, ok := o.Details.(map[string]any); ok {
		if why, ok := details["why"].([]any); ok {
			for _, line := range why {
				if text, ok := line.(string); ok && len(f.Why) < fault.MaxLines {
					f.Because(fault.Clip(text, 300))
				}
			}
		}
	}
	for line := range strings.SplitSeq(o.Suggestion, "\n") {
		switch {
		case len(f.Hint) == fault.MaxLines || !harmless(line):
		case line == "rye login":
			f.Try(line + " " + fault.Quote(s.URL))
		case strings.HasPrefix(line, "rye docs "):
			f.Try(line)
		case startsWithAny(line, suggested):
			f.Try(line + " --registry " + fault.Quote(s.URL))
		}
	}
	return f
}

// suggested begin the commands that a registry may suggest: they ask or change the registry itself. Hints are there to
// be pasted, so a registry must suggest no one to trust, and nothing to run.
var suggested = []string{"rye info ", "rye owner ", "rye publish ", "rye registry token ", "rye release ",
	"rye yank "}

func startsWithAny(text string, starts []string) bool {
	return slices.ContainsFunc(starts, func(start string) bool { return strings.HasPrefix(text, start) })
}

// harmless reports whether a shell takes a line as one command with just these words. There is no ":" in them, so they
// name no other registry.
func harmless(line string) bool {
	return portable.Spelled(line, portable.Letters+portable.Digits, " -_./@+", 300)
}

func answerOf[T any](data json.RawMessage, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	value := new(T)
	if err := json.Unmarshal(data, value); err != nil {
		return nil, fault.New(fault.Registry, "the registry's answer can't be read: %v", err).From(err)
	}
	return value, nil
}
