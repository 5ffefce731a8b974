package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/bundle/skill/offer"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/host"
	"github.com/rye-build/rye/exec/session"
)

// The methods of the extension for skills. Their files are resources.
const (
	listSkills    = "skills/list"
	getSkill      = "skills/get"
	readDirectory = "resources/directory/read"
)

const (
	markdown  = "text/markdown"
	directory = "inode/directory"
	// How many bytes of entries, about, are on a page; a page has at least one entry.
	skillsPage = 256 << 10
)

type skillsParams struct {
	mcp.ParamsBase
	URI    string `json:"uri,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// complete marks a result as one that needs no input of the client's user.
type complete struct {
	mcp.ResultBase
	Type string `json:"resultType"`
}

type skillsResult struct {
	complete
	mcp.Cacheable
	Skills []*offer.Entry `json:"skills"`
	Next   string         `json:"nextCursor,omitempty"`
}

type skillResult struct {
	complete
	mcp.Cacheable
	Skill *offer.Entry `json:"skill"`
}

type directoryResult struct {
	complete
	Resources []*mcp.Resource `json:"resources"`
}

var (
	whole = complete{Type: "complete"}
	// The next lock may have other skills, and who may see them depends on the token.
	fresh = mcp.Cacheable{CacheScope: "private"}
)

// addSkills adds the methods of the extension.
func (s *Server) addSkills() {
	s.sdk.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: offer.Scheme + "{+path}", Name: "skill files",
		Description: "A file of a skill; " + listSkills + " lists them"}, s.skillFile)
	for _, err := range []error{
		mcp.AddReceivingCustomMethod(s.sdk, listSkills, onSkills(s, skillsPageOf)),
		mcp.AddReceivingCustomMethod(s.sdk, getSkill, onSkills(s, skillOf)),
		mcp.AddReceivingCustomMethod(s.sdk, readDirectory, onSkills(s, directoryOf)),
	} {
		if err != nil {
			panic(err) // a test makes a server
		}
	}
}

// onSkills answers a method from the skills of the set as it is now.
func onSkills[R any](s *Server, do func(*session.Skills, *skillsParams) (R, error)) func(context.Context,
	*mcp.ServerSession, *skillsParams) (R, error) {
	return func(ctx context.Context, _ *mcp.ServerSession, p *skillsParams) (R, error) {
		var none R
		skills, err := s.skills(ctx)
		if err != nil {
			return none, err
		}
		return do(skills, cmp.Or(p, &skillsParams{}))
	}
}

// skills returns the skills of the set as it is now. Their files can be read only while a call has that set.
func (s *Server) skills(ctx context.Context) (*session.Skills, error) {
	held, done, err := s.host.Take(ctx, host.Project{})
	if err != nil {
		return nil, internal(err)
	}
	defer done()
	all, err := held.Skills(ctx)
	if err != nil {
		return nil, internal(err)
	}
	return all, nil
}

// internal is wire for what isn't the request's fault.
func internal(err error) error {
	o := fault.Of(err).Object()
	data, _ := json.Marshal(o)
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: o.Message, Data: data}
}

// listSkillFiles lists each SKILL.md as a resource too, for clients without the extension.
func (s *Server) listSkillFiles(ctx context.Context, in *session.Session, now map[string]bool) error {
	all, err := in.Skills(ctx)
	if err != nil {
		return err
	}
	for _, err := range all.LeftOut {
		s.o.Warn(err)
	}
	for _, one := range all.All {
		now[one.URI] = true
		s.sdk.AddResource(&mcp.Resource{URI: one.URI, Name: one.Name, Description: one.Description,
			MIMEType: markdown}, s.skillFile)
	}
	return nil
}

// skillsPageOf returns a page of entries. The cursor is the address of the last entry before it, so that it has a
// meaning under the next lock too.
func skillsPageOf(all *session.Skills, p *skillsParams) (*skillsResult, error) {
	result := &skillsResult{complete: whole, Cacheable: fresh, Skills: []*offer.Entry{}}
	if p.Cursor != "" && !strings.HasPrefix(p.Cursor, offer.Scheme) {
		return nil, wire(fault.New(fault.Validation, "unknown cursor %q", fault.Clip(p.Cursor, 80)))
	}
	sorted := slices.SortedFunc(slices.Values(all.All), func(a, b session.Skill) int {
		return cmp.Compare(a.URI, b.URI)
	})
	size := 0
	for _, one := range sorted {
		if one.URI <= p.Cursor {
			continue
		}
		if size >= skillsPage {
			result.Next = result.Skills[len(result.Skills)-1].URI
			break
		}
		b, err := json.Marshal(one.Entry)
		if err != nil {
			return nil, internal(err)
		}
		size += len(b)
		result.Skills = append(result.Skills, one.Entry)
	}
	return result, nil
}

func skillOf(all *session.Skills, p *skillsParams) (*skillResult, error) {
	for _, one := range all.All {
		if one.URI == p.URI {
			return &skillResult{whole, fresh, one.Entry}, nil
		}
	}
	return nil, wire(fault.New(fault.NotFound, "no skill is served at %q", fault.Clip(p.URI, 200)))
}

// directoryOf lists the children of a directory of skills.
func directoryOf(all *session.Skills, p *skillsParams) (*directoryResult, error) {
	result := &directoryResult{complete: whole, Resources: []*mcp.Resource{}}
	seen := map[string]bool{}
	for _, one := range all.All {
		for _, file := range one.Resources {
			rest, below := strings.CutPrefix(file.URI, p.URI+"/")
			if !below || p.Cursor != "" { // all is on the first page
				continue
			}
			name, more, deeper := strings.Cut(rest, "/")
			child := &mcp.Resource{URI: p.URI + "/" + name, Name: name, MIMEType: directory}
			if seen[name] || name == "" || deeper && more == "" {
				continue
			}
			if seen[name] = true; !deeper {
				child.MIMEType, child.Size = mimeOf(name), file.Size
				if file.URI == one.URI {
					child.Name, child.Description = one.Name, one.Description
				}
			}
			result.Resources = append(result.Resources, child)
		}
	}
	if len(result.Resources) == 0 || !strings.HasPrefix(p.URI, offer.Scheme) {
		return nil, wire(fault.New(fault.NotFound, "%q is not a directory of a skill", fault.Clip(p.URI, 200)))
	}
	slices.SortFunc(result.Resources, func(a, b *mcp.Resource) int { return cmp.Compare(a.URI, b.URI) })
	return result, nil
}

// skillFile gives a file of a skill as it is pinned.
func (s *Server) skillFile(ctx context.Context, q *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	held, done, err := s.host.Take(ctx, host.Project{})
	if err != nil {
		return nil, internal(err)
	}
	defer done()
	skills, err := held.Skills(ctx)
	if err != nil {
		return nil, internal(err)
	}
	b, ok, err := skills.Read(q.Params.URI)
	switch {
	case err != nil:
		return nil, internal(err)
	case !ok:
		return nil, mcp.ResourceNotFoundError(q.Params.URI)
	}
	content := &mcp.ResourceContents{URI: q.Params.URI, MIMEType: mimeOf(q.Params.URI)}
	if utf8.Valid(b) {
		content.Text = string(b)
	} else {
		content.Blob = b
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}, Cacheable: fresh}, nil
}

// mimeOf returns the media type of a file by its extension. It doesn't depend on the machine, as package mime does.
func mimeOf(name string) string {
	switch strings.ToLower(path.Ext(name)) {
	case ".md":
		return markdown
	case ".txt", ".py", ".sh", ".js", ".ts", ".csv", ".yaml", ".yml", ".toml", ".xml":
		return "text/plain"
	case ".html":
		return "text/html"
	case ".json":
		return "application/json"
	}
	return "application/octet-stream"
}
