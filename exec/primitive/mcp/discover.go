package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
)

const (
	// maxPages and maxListed bound a server's announcement of one kind.
	maxPages  = 100
	maxListed = 1000
	// maxAnnounced bounds the announcement of one kind in bytes.
	maxAnnounced = 8 << 20
	// maxListings is how many times the tools may be listed in a burst; after that, once a second.
	maxListings = 5
)

// look returns the commands that show a server's current announcement and accept it. A server of rye mcp add is named
// by the last segment of its id, and one of a plugin with the plugin's id before that (catalog.Place).
func look(server string) []string {
	dir, name := path.Split(strings.TrimPrefix(server, "tool:"))
	dir, ok := strings.CutSuffix(dir, "/servers/")
	if !ok {
		return []string{fault.Command("rye exec", server)}
	}
	if dir != "mcp" {
		name = dir + "/" + name
	}
	return []string{fault.Command("rye mcp refresh", name), fault.Command("rye mcp accept", name)}
}

// check refuses a call of a tool whose definition has changed.
func (x *call) check(ctx context.Context) error {
	tools, err := x.definitions(ctx)
	if err != nil {
		return err
	}
	found, ok := tools[x.tool]
	refused := func(found, format string, args ...any) error {
		return &refusal{fault.New(fault.LockMismatch, format, args...).On("server", x.server).On("tool",
			x.tool).On("expected", x.definition.String()).
			On("found", found).On("reason", "quarantined").Because("it is quarantined: nothing was called",
			"expected  "+x.definition.String(), "found     "+found).
			Try(look(x.server)...)}
	}
	switch {
	case !ok:
		return refused("", "the server %q has no tool %q any more", x.server, x.tool)
	case found.err != nil:
		return refused("", "the server %q has changed its tool %q, and its definition is invalid: %v", x.server,
			x.tool, found.err)
	case found.digest != x.definition:
		return refused(found.digest.String(), "the server %q has changed its tool %q", x.server, x.tool)
	}
	return nil
}

// A listError reports that the server didn't list its tools.
type listError struct{ error }

func (e *listError) Unwrap() error { return e.error }

// definitions returns the definitions of the server's tools by name. It lists them again if they may have changed.
func (k *connection) definitions(ctx context.Context) (map[string]definition, error) {
	select {
	case k.listing <- struct{}{}:
		defer func() { <-k.listing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if !k.stale.Load() {
		return k.tools, nil
	}
	// A server that reports changes all the time only delays its own calls.
	k.tokens = min(maxListings, k.tokens+time.Since(k.filled).Seconds())
	k.filled = time.Now()
	if k.tokens < 1 {
		timer := time.NewTimer(time.Duration((1 - k.tokens) * float64(time.Second)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	k.tokens--
	k.stale.Store(false)
	list, err := all(ctx, "tools", func(ctx context.Context, cursor string) ([]*mcp.Tool, string, error) {
		r, err := k.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", err
		}
		return r.Tools, r.NextCursor, nil
	})
	if err != nil {
		k.stale.Store(true)
		return nil, &listError{err}
	}
	k.tools = make(map[string]definition, len(list))
	for _, t := range list {
		d := definition{}
		v, err := announced(t)
		if err == nil {
			d.digest, err = cas.ParseDigest(v["definition"].(string))
		}
		if _, twice := k.tools[t.Name]; twice {
			err = fmt.Errorf("the server has two tools %q", t.Name)
		}
		d.err = err
		k.tools[t.Name] = d
	}
	return k.tools, nil
}

// all returns the entries of all pages.
func all[T any](ctx context.Context, what string,
	page func(ctx context.Context, cursor string) ([]T, string, error)) ([]T, error) {
	var list []T
	cursor, size := "", 0
	for range maxPages {
		some, next, err := page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		if list = append(list, some...); len(list) > maxListed {
			return nil, fmt.Errorf("it announces more than %d %s", maxListed, what)
		}
		text, err := json.Marshal(some)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxAnnounced {
			return nil, fmt.Errorf("it announces more than %d bytes of %s", maxAnnounced, what)
		}
		if next == "" {
			return list, nil
		}
		cursor = next
	}
	return nil, fmt.Errorf("it announces its %s on more than %d pages", what, maxPages)
}

// announcement returns the server's description of itself, its tools, prompts and resources.
func (x *call) announcement(ctx context.Context) (any, error) {
	clientSession := x.session
	init := clientSession.InitializeResult()
	fields := map[string]any{"protocol": init.ProtocolVersion, "instructions": init.Instructions,
		"server": map[string]any{}}
	if init.ServerInfo != nil {
		info, err := object(init.ServerInfo)
		if err != nil {
			return nil, err
		}
		delete(info, "icons")
		fields["server"] = info
	}
	can := init.Capabilities
	if can == nil {
		can = &mcp.ServerCapabilities{}
	}
	kinds := map[string]func() ([]any, error){"tools": func() ([]any, error) {
		return listed(ctx, "tools", announcedOr,
			func(ctx context.Context, cursor string) ([]*mcp.Tool, string, error) {
				r, err := clientSession.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
				if err != nil {
					return nil, "", err
				}
				return r.Tools, r.NextCursor, nil
			})
	}, "prompts": func() ([]any, error) {
		return listed(ctx, "prompts", object[*mcp.Prompt],
			func(ctx context.Context, cursor string) ([]*mcp.Prompt, string, error) {
				r, err := clientSession.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
				if err != nil {
					return nil, "", err
				}
				return r.Prompts, r.NextCursor, nil
			})
	}, "resources": func() ([]any, error) {
		return listed(ctx, "resources", object[*mcp.Resource],
			func(ctx context.Context, cursor string) ([]*mcp.Resource, string, error) {
				r, err := clientSession.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
				if err != nil {
					return nil, "", err
				}
				return r.Resources, r.NextCursor, nil
			})
	}, "resource_templates": func() ([]any, error) {
		return listed(ctx, "resource templates", object[*mcp.ResourceTemplate],
			func(ctx context.Context, cursor string) ([]*mcp.ResourceTemplate, string, error) {
				r, err := clientSession.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: cursor})
				if err != nil {
					return nil, "", err
				}
				return r.ResourceTemplates, r.NextCursor, nil
			})
	}}
	for name, has := range map[string]bool{
		"tools": can.Tools != nil, "prompts": can.Prompts != nil, "resources": can.Resources != nil,
		"resource_templates": can.Resources != nil,
	} {
		fields[name] = []any{}
		if !has {
			continue
		}
		list, err := kinds[name]()
		if err != nil && name == "resource_templates" && isUnknown(err) {
			continue // many servers have resources without templates
		}
		if err != nil {
			return nil, err
		}
		fields[name] = list
	}
	return fields, nil
}

// announcedOr returns a tool with its definition, or with the problem of an invalid one.
func announcedOr(t *mcp.Tool) (map[string]any, error) {
	v, err := announced(t)
	if err != nil {
		return map[string]any{"name": t.Name, "problem": err.Error()}, nil
	}
	return v, nil
}

// listed returns a server's entries of one kind as JSON values.
func listed[T any](ctx context.Context, what string, show func(T) (map[string]any, error),
	page func(context.Context, string) ([]T, string, error)) ([]any, error) {
	list, err := all(ctx, what, page)
	if err != nil {
		return nil, err
	}
	out := make([]any, 0, len(list))
	for _, t := range list {
		v, err := show(t)
		if err != nil {
			return nil, err
		}
		delete(v, "icons")
		delete(v, "_meta")
		out = append(out, v)
	}
	return out, nil
}
