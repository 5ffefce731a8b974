package modeltest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callID   = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

func list(v any) []any { l, _ := v.([]any); return l }

func text(v any) string { s, _ := v.(string); return s }

// sign is how the server signs what it wants back unchanged.
func sign(s string) string {
	sum := sha256.Sum256([]byte("modeltest " + s))
	return hex.EncodeToString(sum[:])
}

// fields returns why an object has other members than a vendor takes, or lacks one; "" if it has what it should.
func fields(at string, m map[string]any, required, optional string) string {
	must := strings.Fields(required)
	for _, name := range must {
		if _, ok := m[name]; !ok {
			return at + name + ": Field required"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(must, name) && !slices.Contains(strings.Fields(optional), name) {
			return at + name + ": Extra inputs are not permitted"
		}
	}
	return ""
}

// atLeast reports whether a value is an integer of at least n.
func atLeast(v any, n float64) bool {
	f, ok := v.(float64)
	return ok && f >= n && f == float64(int64(f))
}

// A pending is the calls of an assistant that have no result yet.
type pending struct {
	open []string
}

func (p *pending) call(id string) { p.open = append(p.open, id) }

// result returns why there can't be a result for a call.
func (p *pending) result(id string) string {
	i := slices.Index(p.open, id)
	if i < 0 {
		return fmt.Sprintf("a result for %q, which was not called just before", id)
	}
	p.open = slices.Delete(p.open, i, i+1)
	return ""
}

// left returns why something else can't follow yet.
func (p *pending) left() string {
	if len(p.open) > 0 {
		return fmt.Sprintf("no result for %q directly after its call", p.open)
	}
	return ""
}

// declared checks the tools of a request by their names.
func declared(names []string) string {
	seen := map[string]bool{}
	for _, name := range names {
		if !toolName.MatchString(name) {
			return fmt.Sprintf("tools: the name %q should match %s", name, toolName)
		}
		if seen[name] {
			return "tools: Tool names must be unique"
		}
		seen[name] = true
	}
	return ""
}

// first returns the first reason that isn't "".
func first(reasons ...string) string {
	for _, why := range reasons {
		if why != "" {
			return why
		}
	}
	return ""
}
