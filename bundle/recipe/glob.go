package recipe

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/policy/glob"
)

// maxSegments bounds a glob, so that a set of positions in it fits into one word.
const maxSegments = 60

// A Glob is a pattern of paths.
type Glob struct {
	text string
	segs []string // with "*" added behind a final "**"
}

// ParseGlob reads a glob.
func ParseGlob(text string) (Glob, error) {
	// Other rules treat a star as a letter.
	if err := portable.Check(strings.ReplaceAll(text, "*", "x")); err != nil {
		pe, _ := errors.AsType[*portable.Error](err)
		return Glob{}, fmt.Errorf("%+q matches no valid path: %s", fault.Clip(text, 100), pe.Detail)
	}
	segs := strings.Split(text, "/")
	for _, s := range segs {
		if s != "**" && strings.Contains(s, "**") {
			return Glob{}, fmt.Errorf("%+q: ** must be a whole segment, as in a/**/b", fault.Clip(text, 100))
		}
	}
	if segs[len(segs)-1] == "**" {
		segs = append(segs, "*")
	}
	if len(segs) > maxSegments {
		return Glob{}, fmt.Errorf("%+q has more than %d segments", fault.Clip(text, 100), maxSegments)
	}
	return Glob{text, segs}, nil
}

// String returns the glob as it was written.
func (g Glob) String() string { return g.text }

// Match reports whether the glob matches a path. Its time is bounded by the product of the lengths.
func (g Glob) Match(path string) bool {
	return g.text == "**" && path != "" || g.walk(path)>>len(g.segs)&1 != 0
}

// Below reports whether the glob can match a path below a directory.
func (g Glob) Below(dir string) bool { return g.walk(dir)&^(1<<len(g.segs)) != 0 }

// walk returns the set of positions in the glob after a path.
func (g Glob) walk(path string) uint64 {
	at := g.reach(1)
	for at != 0 {
		seg, rest, more := strings.Cut(path, "/")
		at = g.step(at, seg)
		if !more {
			break
		}
		path = rest
	}
	return at
}

// step returns the set of positions in the glob after a segment.
func (g Glob) step(at uint64, seg string) (next uint64) {
	for ; at != 0; at &= at - 1 {
		i := bits.TrailingZeros64(at)
		switch {
		case i == len(g.segs):
		case g.segs[i] == "**":
			next |= 1 << i
		case glob.MatchSegment(g.segs[i], seg):
			next |= 1 << (i + 1)
		}
	}
	return g.reach(next)
}

// reach adds the position after each "**", which may match no segment.
func (g Glob) reach(at uint64) uint64 {
	for i, s := range g.segs {
		if s == "**" && at>>i&1 != 0 {
			at |= 1 << (i + 1)
		}
	}
	return at
}
