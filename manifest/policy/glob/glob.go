package glob

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/cas/portable"
)

const (
	maxGlob    = 200
	maxKind    = 32
	maxVersion = 64
)

// A Name is the parsed subject of a rule: "bundle:acme/x@1.2.0" has the kind bundle and the id acme/x. Rules ignore
// the version: a key that may sign one version may sign the next.
type Name struct{ Kind, ID string }

// ParseName reads a name of decision 3 with a kind and an id.
func ParseName(s string) (Name, error) {
	kind, id, ok := strings.Cut(s, ":")
	if !ok || !isKind(kind) {
		return Name{}, fmt.Errorf("%+q is not a name: expected kind:id", clip(s))
	}
	if kind == "bundle" {
		var version string
		if id, version, ok = strings.Cut(id, "@"); ok && !isVersion(version) {
			return Name{}, fmt.Errorf("%+q is not a name: %+q is not a version", clip(s), clip(version))
		}
	}
	if err := portable.CheckID(id); err != nil {
		return Name{}, err
	}
	return Name{kind, id}, nil
}

func isKind(s string) bool { return portable.Spelled(s, portable.Lower, portable.Digits+"-", maxKind) }

const alnum = portable.Letters + portable.Digits

func isVersion(s string) bool { return portable.Spelled(s, alnum+".+-", "", maxVersion) }

// named reports whether only globs that name the kind cover it: a key for all items must not vouch for revocation
// lists, build results or the audit log.
func named(kind string) bool {
	switch kind {
	case "audit", "build", "policy", "revocations", "rotation", "token", "transcript":
		return true
	}
	return false
}

// A Glob is one pattern of a policy over names, parsed.
type Glob struct {
	text   string
	kind   string   // "" covers every kind that is not named
	prefix string   // of the id, up to the first star
	rank   int      // the glob with the higher rank decides
	segs   []string // of the id; a last "**" is stored as "*", "**"
}

// Parse reads a glob.
func Parse(text string) (Glob, error) {
	glob := Glob{text: text}
	bad := func(format string, args ...any) (Glob, error) {
		return Glob{}, fmt.Errorf("pattern %+q: %s", clip(text), fmt.Sprintf(format, args...))
	}
	if len(text) > maxGlob {
		return bad("is longer than %d bytes", maxGlob)
	}
	id := text
	if kind, rest, ok := strings.Cut(text, ":"); ok {
		if !isKind(kind) {
			return bad("%+q is not a kind; leave the kind out to cover all of them", kind)
		}
		glob.kind, id = kind, rest
	}
	glob.segs = strings.Split(id, "/")
	for i, seg := range glob.segs {
		switch {
		case seg == "":
			return bad("has an empty segment")
		case !portable.Spelled(seg, alnum+"._-*", "", maxGlob):
			return bad("only letters, digits, . _ - and the wildcards * and ** are allowed between slashes")
		case seg == "**" && i > 0 && glob.segs[i-1] == "**":
			return bad(`"**/**" means the same as "**"`)
		case seg != "**" && strings.Contains(seg, "**"):
			return bad(`"**" matches whole segments: write it between slashes`)
		case !strings.ContainsRune(alnum+"*", rune(seg[0])):
			return bad("no segment of an id begins with %+q", seg[:1])
		}
	}
	glob.prefix, _, _ = strings.Cut(id, "*")
	glob.rank = 2 * len(glob.prefix)
	if glob.prefix == id {
		// A pattern without a star ends where its prefix ends, and that end is one literal more.
		if err := portable.CheckID(id); err != nil {
			return bad("%s", err)
		}
		glob.rank += 2
	}
	if glob.kind != "" {
		glob.rank++
	}
	if last := len(glob.segs) - 1; glob.segs[last] == "**" {
		glob.segs = append(glob.segs[:last:last], "*", "**")
	}
	return glob, nil
}

// Match reports whether the glob covers n. Its time is bounded by the product of the lengths.
func (g *Glob) Match(n Name) bool {
	if g.kind != n.Kind && (g.kind != "" || named(n.Kind)) || !strings.HasPrefix(n.ID, g.prefix) {
		return false
	}
	segs, rest := g.segs, n.ID
	// If a match after a "**" fails, only the last "**" needs another try, one segment further.
	var retrySegs []string
	var retry string
	again := false
	for rest != "" {
		if len(segs) > 0 && segs[0] == "**" {
			segs = segs[1:]
			retrySegs, retry, again = segs, rest, true
			continue
		}
		head, tail, _ := strings.Cut(rest, "/")
		if len(segs) > 0 && MatchSegment(segs[0], head) {
			segs, rest = segs[1:], tail
			continue
		}
		if !again {
			return false
		}
		_, retry, _ = strings.Cut(retry, "/")
		segs, rest = retrySegs, retry
	}
	return len(segs) == 0 || len(segs) == 1 && segs[0] == "**"
}

// MatchAny reports whether one of the globs covers n.
func MatchAny(globs []Glob, n Name) bool {
	for i := range globs {
		if globs[i].Match(n) {
			return true
		}
	}
	return false
}

// Text returns the glob as it was written.
func (g *Glob) Text() string { return g.text }

// MatchSegment matches one segment. "*" in the pattern matches any run of characters, also an empty one.
func MatchSegment(pattern, s string) bool {
	star, mark := -1, 0
	i, j := 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && pattern[i] == s[j]:
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[i:], "*") == ""
}

// errTie is the error about two rules that could both decide about a name.
var errTie = errors.New("neither rule is more specific")

// Collide reports whether two globs of one rank could both match a name. In doubt it returns true: only different
// kinds, prefixes or endings make it return false.
func Collide(a, b *Glob) bool {
	if a.rank != b.rank || a.kind != b.kind || a.prefix != b.prefix {
		return false
	}
	x, y := ending(a.text), ending(b.text)
	return strings.HasSuffix(x, y) || strings.HasSuffix(y, x)
}

func ending(text string) string { return text[strings.LastIndexByte(text, '*')+1:] }

// Most returns the index of the glob that decides about n: the one with the highest rank among those that match, or
// -1 if none matches.
func Most[T any](all []T, globOf func(*T) *Glob, n Name) (int, error) {
	best := -1
	for i := range all {
		g := globOf(&all[i])
		if best >= 0 && g.rank < globOf(&all[best]).rank || !g.Match(n) {
			continue
		}
		if best >= 0 && g.rank == globOf(&all[best]).rank {
			return -1, fmt.Errorf("%+q and %+q: %w", globOf(&all[best]).text, g.text, errTie)
		}
		best = i
	}
	return best, nil
}

// clip shortens a foreign text for a message.
func clip(s string) string {
	if len(s) > 100 {
		return strings.ToValidUTF8(s[:100], "") + "..."
	}
	return s
}
