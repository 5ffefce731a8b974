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

// sign returns the server's signature of data that it wants back unchanged.
func sign(s string) string {
	sum := sha256.Sum256([]byte("modeltest " + s))
	return hex.EncodeToString(sum[:])
}

// fields returns an error if an object lacks a required member or has an unknown one, otherwise "".
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

// A pending has the calls of an assistant without a result.
type pending struct {
	open []string
}

func (p *pending) call(id string) { p.open = append(p.open, id) }

// result records the result of a call. It returns an error if the call isn't open.
func (p *pending) result(id string) string {
	i := slices.Index(p.open, id)
	if i < 0 {
		return fmt.Sprintf("a result for %q, which was not called just before", id)
	}
	p.open = slices.Delete(p.open, i, i+1)
	return ""
}

// left returns an error if a call has no result yet.
func (p *pending) left() string {
	if len(p.open) > 0 {
		return fmt.Sprintf("no result for %q directly after its call", p.open)
	}
	return ""
}

// declared checks the names of a request's tools.
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

// first returns the first nonempty reason.
func first(reasons ...string) string {
	for _, why := range reasons {
		if why != "" {
			return why
		}
	}
	return ""
}
