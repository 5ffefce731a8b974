package starlark

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	star "go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// Predeclared returns the names that every script has in addition to the language's.
func Predeclared() star.StringDict {
	return star.StringDict{
		"fail":   star.NewBuiltin("fail", fail),
		"html":   pages(),
		"json":   json.Module,
		"math":   math.Module,
		"re":     new(expressions).module(),
		"sha256": star.NewBuiltin("sha256", sum),
		"struct": star.NewBuiltin("struct", starlarkstruct.Make),
		"url":    addresses(),
	}
}

// A call is the signature of a Go function that the interpreter calls.
type call func(t *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error)

// functions returns a module of functions.
func functions(name string, all map[string]call) *starlarkstruct.Module {
	members := star.StringDict{}
	for f, call := range all {
		members[f] = star.NewBuiltin(name+"."+f, call)
	}
	return &starlarkstruct.Module{Name: name, Members: members}
}

// fail implements fail(reason), which ends the tool with a failure.
func fail(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var reason string
	if err := star.UnpackArgs(b.Name(), args, named, "reason", &reason); err != nil {
		return nil, err
	}
	return nil, &failure{reason}
}

// sum implements sha256(text): a digest in hexadecimal.
func sum(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var text string
	if err := star.UnpackArgs(b.Name(), args, named, "text", &text); err != nil {
		return nil, err
	}
	d := sha256.Sum256([]byte(text))
	return star.String(hex.EncodeToString(d[:])), nil
}

// expressions caches compiled regular expressions, since a script uses a few of them often.
type expressions struct{ compiled map[string]*regexp.Regexp }

// maxExpressions bounds the cache.
const maxExpressions = 100

func (e *expressions) of(pattern string) (*regexp.Regexp, error) {
	if x, ok := e.compiled[pattern]; ok {
		return x, nil
	}
	x, err := regexp.Compile(pattern)
	if err != nil {
		return nil, &failure{err.Error()} // usually a mistake of the tool's caller
	}
	if e.compiled == nil || len(e.compiled) >= maxExpressions {
		e.compiled = map[string]*regexp.Regexp{}
	}
	e.compiled[pattern] = x
	return x, nil
}

// unpack reads the arguments of a function whose first argument is a pattern.
func (e *expressions) unpack(b *star.Builtin, args star.Tuple, named []star.Tuple, others ...any) (*regexp.Regexp,
	error) {
	var pattern string
	if err := star.UnpackArgs(b.Name(), args, named, append([]any{"pattern", &pattern}, others...)...); err != nil {
		return nil, err
	}
	return e.of(pattern)
}

func (e *expressions) module() star.Value {
	return functions("re", map[string]call{"search": e.search, "find_all": e.findAll, "sub": e.sub, "split": e.split})
}

// groups returns the texts of a match, with None for a group that didn't match.
func groups(text string, at []int) star.Value {
	list := make(star.Tuple, len(at)/2)
	for i := range list {
		if at[2*i] < 0 {
			list[i] = star.None
		} else {
			list[i] = star.String(text[at[2*i]:at[2*i+1]])
		}
	}
	return list
}

func (e *expressions) search(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value,
	error) {
	var text string
	x, err := e.unpack(b, args, named, "text", &text)
	if err != nil {
		return nil, err
	}
	at := x.FindStringSubmatchIndex(text)
	if at == nil {
		return star.None, nil
	}
	return groups(text, at), nil
}

func (e *expressions) findAll(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value,
	error) {
	var text string
	most := -1
	x, err := e.unpack(b, args, named, "text", &text, "most?", &most)
	if err != nil {
		return nil, err
	}
	all := new(star.List)
	for _, at := range x.FindAllStringSubmatchIndex(text, most) {
		if err := all.Append(groups(text, at)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e *expressions) sub(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var by, text string
	x, err := e.unpack(b, args, named, "by", &by, "text", &text)
	if err != nil {
		return nil, err
	}
	return star.String(x.ReplaceAllString(text, by)), nil
}

func (e *expressions) split(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var text string
	x, err := e.unpack(b, args, named, "text", &text)
	if err != nil {
		return nil, err
	}
	all := new(star.List)
	for _, part := range x.Split(text, -1) {
		if err := all.Append(star.String(part)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// module returns the module fs.
func (p *place) module() star.Value {
	return functions("fs", map[string]call{
		"read": p.readText, "write": p.writeText, "stat": p.statOf, "exists": p.exists, "list": p.listOf,
		"walk": p.walkOf, "glob": p.globOf,
	})
}

// readText implements fs.read(path, offset=0, limit=None, otherwise=…): the text of a file from a byte offset, as
// many whole characters as fit into limit bytes. For a file that isn't text, or is too long without a limit, it
// returns otherwise, or an error.
func (p *place) readText(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var at string
	offset, limit := int64(0), star.Value(star.None)
	var otherwise star.Value
	if err := star.UnpackArgs(b.Name(), args, named, "path", &at, "offset?", &offset, "limit?", &limit, "otherwise?",
		&otherwise); err != nil {
		return nil, err
	}
	most := int64(MaxRead)
	if limit != star.None {
		if err := star.AsInt(limit, &most); err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
	}
	if offset < 0 || most < utf8.UTFMax || most > MaxRead {
		return nil, fmt.Errorf("offset must be at least 0, and limit between %d and %d", utf8.UTFMax, MaxRead)
	}
	text, err := p.read(at, offset, most+1)
	if err != nil {
		return nil, err
	}
	if int64(len(text)) > most {
		switch {
		case limit != star.None:
		case otherwise != nil:
			return otherwise, nil
		default:
			return nil, &fileError{at, fmt.Sprintf("has more than %d bytes: read it in parts", MaxRead)}
		}
		text = text[:most]
		// Leave a character that the limit cuts for the next read.
		for i := 1; i < utf8.UTFMax; i++ {
			if c := text[len(text)-i]; utf8.RuneStart(c) {
				if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-i:]) {
					text = text[:len(text)-i]
				}
				break
			}
		}
	}
	switch {
	case utf8.Valid(text):
	case otherwise != nil:
		return otherwise, nil
	default:
		return nil, &fileError{at, "is not text in UTF-8"}
	}
	return star.String(text), nil
}

// writeText implements fs.write(path, text): it writes a file, and returns whether it created it.
func (p *place) writeText(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var at, text string
	if err := star.UnpackArgs(b.Name(), args, named, "path", &at, "text", &text); err != nil {
		return nil, err
	}
	made, err := p.write(at, text)
	return star.Bool(made), err
}

// described returns the facts about a file as a struct.
func described(at string, info fs.FileInfo) star.Value {
	return starlarkstruct.FromStringDict(starlarkstruct.Default, star.StringDict{
		"path": star.String(at), "name": star.String(path.Base(at)), "type": star.String(typeOf(info.Mode())),
		"size": star.MakeInt64(info.Size()),
	})
}

func typeOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m.IsRegular():
		return "file"
	case m&fs.ModeSymlink != 0:
		return "link"
	}
	return "other"
}

// one reads the only argument of a function, a path.
func one(b *star.Builtin, args star.Tuple, named []star.Tuple) (at string, err error) {
	err = star.UnpackArgs(b.Name(), args, named, "path", &at)
	return at, err
}

// statOf implements fs.stat(path): a struct of path, name, type and size, or None for a missing file.
func (p *place) statOf(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	at, err := one(b, args, named)
	if err != nil {
		return nil, err
	}
	info, err := p.stat(at)
	if err != nil || info == nil {
		return star.None, err
	}
	if at, err = p.clean(at); err != nil {
		return nil, err
	}
	return described(at, info), nil
}

// exists implements fs.exists(path): whether the path exists.
func (p *place) exists(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	at, err := one(b, args, named)
	if err != nil {
		return nil, err
	}
	info, err := p.stat(at)
	return star.Bool(info != nil), err
}

// listOf implements fs.list(path): the entries of a directory, sorted by name, each as fs.stat returns it.
func (p *place) listOf(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	at, err := one(b, args, named)
	if err != nil {
		return nil, err
	}
	entries, real, err := p.list(at)
	if err != nil {
		return nil, err
	}
	all := new(star.List)
	for _, e := range entries {
		if err := add(all, path.Join(real, e.Name()), e); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// add appends the facts about an entry, unless it has been removed.
func add(all *star.List, at string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return nil
	}
	return all.Append(described(at, info))
}

// texts reads a list of strings.
func texts(name string, v star.Iterable) (list []string, err error) {
	if v == nil {
		return nil, nil
	}
	i := v.Iterate()
	defer i.Done()
	var e star.Value
	for i.Next(&e) {
		text, ok := star.AsString(e)
		if !ok {
			return nil, fmt.Errorf("%s must be a list of strings, but contains a %s", name, e.Type())
		}
		list = append(list, text)
	}
	return list, nil
}

// walkOf implements fs.walk(path, skip=[]): everything below a directory, as fs.list returns it.
func (p *place) walkOf(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	at := "."
	var skip star.Iterable
	if err := star.UnpackArgs(b.Name(), args, named, "path?", &at, "skip?", &skip); err != nil {
		return nil, err
	}
	over, err := texts("skip", skip)
	if err != nil {
		return nil, err
	}
	all := new(star.List)
	err = p.walk(at, over, func(f found) error { return add(all, f.path, f.entry) })
	return all, err
}

// globOf implements fs.glob(pattern, path=".", skip=[]): the paths of files below a directory that match a pattern.
func (p *place) globOf(_ *star.Thread, b *star.Builtin, args star.Tuple, named []star.Tuple) (star.Value, error) {
	var text string
	at := "."
	var skip star.Iterable
	if err := star.UnpackArgs(b.Name(), args, named, "pattern", &text, "path?", &at, "skip?", &skip); err != nil {
		return nil, err
	}
	over, err := texts("skip", skip)
	if err != nil {
		return nil, err
	}
	pattern, err := newPattern(strings.TrimPrefix(text, "./"))
	if err != nil {
		return nil, err
	}
	all := new(star.List)
	err = p.walk(at, over, func(f found) error {
		if !f.entry.Type().IsRegular() || !pattern.matches(f.below) {
			return nil
		}
		return all.Append(star.String(f.path))
	})
	return all, err
}
