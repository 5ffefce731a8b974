package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/bundle/skill"
	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/primitive"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/manifest/jcs"
)

// Limits on a server whose skills are read.
const (
	maxOffers = 10_000
	// maxOfferPages bounds pages, and maxOffered the bytes of all.
	maxOfferPages = 1000
	maxOffered    = 64 << 20
	// maxSkillMessage has room for a file of offer.MaxBytes in base64.
	maxSkillMessage = 24 << 20
	// skillTime is for each request.
	skillTime = time.Minute
)

// The methods of the skills extension that a client needs.
const (
	listSkills = "skills/list"
	getSkill   = "skills/get"
)

// A SkillServer is a connection to a server over HTTP, to read its skills. It isn't safe for concurrent use.
type SkillServer struct {
	URL     string // for people
	remote  *remote
	session *mcp.ClientSession
}

type skillParams struct {
	mcp.ParamsBase
	URI    string `json:"uri,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// A rawResult keeps the bytes of a result: they are read strictly.
type rawResult struct {
	mcp.ResultBase
	b []byte
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *rawResult) UnmarshalJSON(b []byte) error {
	r.b = append([]byte{}, b...)
	return nil
}

// OpenSkills connects to a server that has skills. network bounds where the address may lead, as for a call.
func (c *Client) OpenSkills(ctx context.Context, address string, network sandbox.Network) (*SkillServer, error) {
	action := &primitive.Action{Config: map[string]any{"url": address}}
	action.Sandbox.Network = network
	r, err := c.remote(action, &request{message: maxSkillMessage})
	if err != nil {
		return nil, err
	}
	s := &SkillServer{URL: address, remote: r}
	client := mcp.NewClient(&mcp.Implementation{Name: "rye", Version: c.Version},
		&mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	for _, method := range []string{listSkills, getSkill} {
		if err := mcp.AddSendingCustomMethod[*skillParams, *rawResult](client, method); err != nil {
			return nil, err
		}
	}
	ctx, stop := context.WithTimeoutCause(ctx, handshake, fmt.Errorf("it did not answer within %s", handshake))
	defer stop()
	if s.session, err = client.Connect(ctx, r, nil); err != nil {
		err = s.failed(ctx, err)
		r.stop(0)
		return nil, err
	}
	if has := s.session.InitializeResult().Capabilities; has == nil || has.Extensions[offer.Extension] == nil {
		s.Close()
		return nil, fault.New(fault.Validation, "the server has no skills: it does not declare the extension %s",
			offer.Extension).On("url", address)
	}
	return s, nil
}

// Close ends the connection.
func (s *SkillServer) Close() {
	s.remote.stop(lastWord)
	s.session.Close() // the server may answer or not
	s.remote.stop(0)
}

// failed returns the error of a request.
func (s *SkillServer) failed(ctx context.Context, err error) error {
	if why, _ := s.remote.broken(); why != "" {
		err = errors.New(why)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	var trouble primitive.Trouble
	s.remote.trouble(&trouble)
	if trouble.Status == http.StatusUnauthorized {
		return fault.New(fault.AuthRequired, "the server requires authentication (HTTP 401)").On("url", s.URL)
	}
	if _, ok := fault.Find(err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	code := fault.Unavailable
	if _, answered := errors.AsType[*jsonrpc.Error](err); answered {
		code = fault.Failed
	}
	return fault.New(code, "the server can't be asked for skills: %s", clean(fault.Clip(err.Error(), 300))).From(err).
		On("url", s.URL)
}

// ask sends a request and returns its result as package jcs reads it.
func (s *SkillServer) ask(ctx context.Context, method string, p *skillParams) (map[string]any, int, error) {
	ctx, stop := context.WithTimeoutCause(ctx, skillTime, fmt.Errorf("it did not answer within %s", skillTime))
	defer stop()
	r, err := mcp.CallCustomMethod[*skillParams, *rawResult](ctx, s.session, method, p)
	if err != nil {
		return nil, 0, s.failed(ctx, err)
	}
	v, err := jcs.Parse(r.b)
	if err != nil {
		return nil, 0, fault.New(fault.Validation, "the answer to %s can't be read: %v", method, err).From(err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, 0, fault.New(fault.Validation, "the answer to %s is not an object", method)
	}
	return m, len(r.b), nil
}

// List returns the server's skills, also those that can't be added.
func (s *SkillServer) List(ctx context.Context) (all []*offer.Offer, err error) {
	p := &skillParams{}
	cursors, bytes := map[string]bool{}, 0
	for pages := 0; ; pages++ {
		m, size, err := s.ask(ctx, listSkills, p)
		if err != nil {
			return nil, err
		}
		listed, ok := m["skills"].([]any)
		if !ok {
			return nil, fault.New(fault.Validation, "the answer to %s has no list of skills", listSkills)
		}
		for _, v := range listed {
			all = append(all, offer.Parse(v))
		}
		if bytes += size; len(all) > maxOffers || bytes > maxOffered || pages == maxOfferPages {
			return nil, fault.New(fault.Limit, "the server lists too many skills: more than %d, or %d MiB", maxOffers,
				maxOffered>>20)
		}
		next, _ := m["nextCursor"].(string)
		if next == "" {
			return all, nil
		}
		if cursors[next] {
			return nil, fault.New(fault.Validation, "the server's list of skills has no end: a page comes again")
		}
		cursors[next], p.Cursor = true, next
	}
}

// Get returns the entry of one skill, by its address, as it is now.
func (s *SkillServer) Get(ctx context.Context, uri string) (*offer.Offer, error) {
	m, _, err := s.ask(ctx, getSkill, &skillParams{URI: uri})
	if err != nil {
		return nil, err
	}
	o := offer.Parse(m["skill"])
	if o.Err == nil && o.URI != uri {
		return nil, fault.New(fault.Validation, "the server answered with another skill, %q",
			fault.Clip(o.URI, 200))
	}
	return o, o.Err
}

// Read reads all files of a skill, SKILL.md first, and nothing more after a file that isn't what the entry says. At
// the end the server must still have that entry.
func (s *SkillServer) Read(ctx context.Context, o *offer.Offer) (*skill.Skill, error) {
	if o.Err != nil {
		return nil, o.Err
	}
	var files []skill.File
	for _, main := range []bool{true, false} {
		for i := range o.Files {
			f := &o.Files[i]
			if main != (f.Path == skill.Main) {
				continue
			}
			b, err := s.file(ctx, f)
			if err == nil && main {
				err = o.CheckMain(b)
			}
			if err != nil {
				return nil, err
			}
			files = append(files, skill.File{Path: f.Path, Bytes: b})
		}
	}
	now, err := s.Get(ctx, o.URI)
	if err != nil {
		return nil, err
	}
	if !now.Same(o) {
		return nil, fault.New(fault.Conflict, "the skill %q changed on the server meanwhile", o.Name)
	}
	return o.Skill(files)
}

// file reads and checks one file.
func (s *SkillServer) file(ctx context.Context, f *offer.File) ([]byte, error) {
	ctx, stop := context.WithTimeoutCause(ctx, skillTime, fmt.Errorf("it did not answer within %s", skillTime))
	defer stop()
	r, err := s.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: f.URI})
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	if len(r.Contents) != 1 || r.Contents[0] == nil || r.Contents[0].URI != f.URI {
		return nil, fault.New(fault.Validation, "the server's answer is not the file %q", f.Path)
	}
	b := r.Contents[0].Blob
	if b == nil {
		b = []byte(r.Contents[0].Text)
	}
	return b, f.Check(b)
}
