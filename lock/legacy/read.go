package legacy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/cas/portable"
	"github.com/rye-build/rye/manifest/jcs"
)

// Dir is the directory of the locks in .ai.
const Dir = "lockfiles"

const (
	suffix   = ".lock.json"
	maxFiles = 10_000
	maxBytes = 1 << 20
	maxLinks = 64
	maxText  = 100 // bytes of a version, a time, a type
)

// A Lock pins one tool and its chain.
type Lock struct {
	Path      string // in the directory .ai
	Tool      model.Ref
	Version   string // as in the tool
	Integrity string
	Generated string // the time, as written
	Chain     []Link
}

// A Link is a tool of the chain in a lock.
type Link struct {
	Tool      model.Ref
	Space     string // the label: "project", "user", "system:rye-os"
	Type      string // may be empty
	Executor  string // an id; empty for a primitive
	Integrity string
}

// An Error is the reason why a file is not a lock of the first format.
type Error struct {
	Path         string // in the directory .ai
	Line, Column int    // 0 if it concerns no single place
	Err          error
}

func (e *Error) Error() string {
	at := ""
	if e.Line > 0 {
		at = fmt.Sprintf(", line %d, column %d", e.Line, e.Column)
	}
	return fmt.Sprintf("lock of the first format %+q%s: %v", e.Path, at, e.Err)
}

// Unwrap returns the underlying error.
func (e *Error) Unwrap() error { return e.Err }

var errMany = fmt.Errorf("there are more than %d files", maxFiles)

// Read returns the locks in a directory .ai, sorted by path, and an *Error for each unreadable one. A directory
// without locks is no error.
func Read(ai fs.FS) (locks []Lock, errs []error) {
	bad := func(p string, err error) {
		own, ok := errors.AsType[*Error](err)
		if !ok {
			own = &Error{Err: err}
		}
		own.Path = p
		errs = append(errs, own)
	}
	files := 0
	fs.WalkDir(ai, Dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case path == Dir && errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			bad(path, err)
			return nil
		case entry.IsDir() && len(path) > portable.MaxPath:
			bad(path, fmt.Errorf("the path has more than %d bytes", portable.MaxPath))
			return fs.SkipDir
		case path == Dir && !entry.IsDir():
			bad(path, errors.New("is not a directory"))
			return nil
		case entry.IsDir() || !strings.HasSuffix(path, suffix):
			return nil
		}
		if files++; files > maxFiles {
			bad(Dir, errMany)
			return fs.SkipAll
		}
		l, err := readFile(ai, path, entry)
		if err != nil {
			bad(path, err)
			return nil
		}
		locks = append(locks, *l)
		return nil
	})
	return locks, errs
}

func readFile(ai fs.FS, path string, d fs.DirEntry) (*Lock, error) {
	if !d.Type().IsRegular() {
		return nil, errors.New("is not a regular file")
	}
	r, err := ai.Open(path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, b)
}

// Parse reads the lock at a path in a directory .ai. An error is an *Error.
func Parse(path string, b []byte) (*Lock, error) {
	fail := func(err error) (*Lock, error) { return nil, &Error{Path: path, Err: err} }
	if len(b) > maxBytes {
		return fail(fmt.Errorf("it has more than %d bytes", maxBytes))
	}
	v, err := jcs.Parse(b)
	if bad, ok := errors.AsType[*jcs.SyntaxError](err); ok {
		before := b[:bad.Offset]
		line := bytes.Count(before, []byte("\n")) + 1
		return nil, &Error{path, line, len(before) - bytes.LastIndexByte(before, '\n'), errors.New(bad.Msg)}
	}
	if err != nil {
		return fail(err)
	}
	r := &reader{}
	l := r.lock(v)
	l.Path = path
	if r.err == nil && path != l.place() {
		r.err = fmt.Errorf("it is a lock of %s in version %+q: expected the path %+q", l.Tool, l.Version, l.place())
	}
	if r.err != nil {
		return fail(r.err)
	}
	return l, nil
}

// place returns the path of the lock in a directory .ai.
func (l *Lock) place() string { return Dir + "/" + l.Tool.ID + "@" + l.Version + suffix }

// A reader decodes values and remembers the first error.
type reader struct{ err error }

func (r *reader) fail(where, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...))
	}
}

func (r *reader) object(where string, v any) map[string]any {
	m, ok := v.(map[string]any)
	if !ok {
		r.fail(where, "expected an object, found %s", kindOf(v))
	}
	return m
}

// text returns a member that is a text. It may be missing only if optional.
func (r *reader) text(where string, m map[string]any, name string, optional bool) string {
	v := m[name]
	if v == nil && optional {
		return ""
	}
	s, ok := v.(string)
	switch {
	case !ok:
		r.fail(where+name, "expected a text, found %s", kindOf(v))
	case s == "":
		r.fail(where+name, "it is empty")
	case len(s) > portable.MaxID:
		r.fail(where+name, "it has more than %d bytes", portable.MaxID)
	}
	return s
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "a truth value"
	case float64:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "an array"
	}
	return "an object"
}

func (r *reader) lock(v any) *Lock {
	lock := new(Lock)
	object := r.object("the lock", v)
	if version := object["lockfile_version"]; version != 1.0 {
		if _, ok := version.(float64); ok {
			r.fail("lockfile_version", "expected 1, found %v", version)
		}
		r.fail("lockfile_version", "expected 1, found %s", kindOf(version))
	}
	lock.Generated = r.text("", object, "generated_at", false)
	root := r.object("root", object["root"])
	lock.Tool = r.tool("root.", root, "tool_id")
	lock.Version = r.version("root.", root)
	lock.Integrity = r.integrity("root.", root)
	chain, ok := object["resolved_chain"].([]any)
	if !ok {
		r.fail("resolved_chain", "expected an array, found %s", kindOf(object["resolved_chain"]))
	}
	if len(chain) > maxLinks {
		r.fail("resolved_chain", "it has more than %d links", maxLinks)
		return lock
	}
	for i, v := range chain {
		lock.Chain = append(lock.Chain, r.link(fmt.Sprintf("resolved_chain[%d]", i), v))
	}
	return lock
}

func (r *reader) link(where string, v any) Link {
	m := r.object(where, v)
	where += "."
	link := Link{
		Tool:      r.tool(where, m, "item_id"),
		Space:     r.text(where, m, "space", false),
		Type:      r.text(where, m, "tool_type", true),
		Executor:  r.text(where, m, "executor_id", true),
		Integrity: r.integrity(where, m),
	}
	if id, system := strings.CutPrefix(link.Space, "system:"); link.Space != "project" && link.Space != "user" &&
		(!system || portable.CheckID(id) != nil) {
		r.fail(where+"space", "%+q is not a space", link.Space)
	}
	return link
}

func (r *reader) tool(where string, m map[string]any, name string) model.Ref {
	id := r.text(where, m, name, false)
	ref, err := model.ParseRef("tool:" + id)
	if err != nil {
		r.fail(where+name, "%v", err)
	}
	return ref
}

func (r *reader) version(where string, m map[string]any) string {
	v := r.text(where, m, "version", false)
	// The version is part of a file name.
	if strings.ContainsFunc(v, func(c rune) bool { return c <= ' ' || c > '~' || c == '/' }) || len(v) > maxText {
		r.fail(where+"version", "%+q is not a version", v)
	}
	return v
}

func (r *reader) integrity(where string, m map[string]any) string {
	s := r.text(where, m, "integrity", false)
	if len(s) != 64 || strings.Trim(s, "0123456789abcdef") != "" {
		r.fail(where+"integrity", "%+q is not 64 lower-case hexadecimal digits", s)
	}
	return s
}
