package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/osfile"
)

// A Program is an unpinned program of the machine.
type Program struct {
	Name     string // the variable with its path, or its own name
	Link     string // the link that needs it; "" if another program needs it
	Type     string // as in env_config; "name", "manager", or "interpreter" of a script
	Path     string // that it is started by
	Real     string // the same without symbolic links
	Version  string // if its path has it
	Digest   cas.Digest
	Size     int64
	Fallback bool
	For      string // for a manager or an interpreter: the path of the program that needs it

	next []Program // the programs that it needs
}

// maxProgram is the largest program, in bytes.
const maxProgram = 2 << 30

// unusable returns the error for a file that can't be used as a program.
func unusable(path, why string) error { return fmt.Errorf("%q %s", path, why) }

// Find finds a program by its absolute path, or by its name in the PATH of an environment. It returns the program,
// followed by the programs that it needs. A missing program is a *NotFoundError.
func Find(q Request, e *Env, name string) ([]Program, error) {
	resolver := &resolver{Request: q, Files: q.Host.Files, env: &Env{}, path: filepath.SplitList(e.Vars["PATH"])}
	if !filepath.IsAbs(name) {
		if err := checkProgram(name); err != nil {
			return nil, err
		}
	}
	p, err := resolver.byName(name)
	if err != nil {
		return nil, err
	}
	p.Name, p.Type = filepath.Base(name), "name"
	if err := resolver.report(p); err != nil {
		return nil, err
	}
	return resolver.env.Programs, nil
}

// A Shim is what a version manager puts into PATH in place of a program: it chooses the program by the directory and
// by files of the manager, which a sandbox hides.
type Shim struct {
	Name string // of the program
	Path string // of the shim
	Past string // the path of a program of this name behind the shim in PATH; "" without one
}

// ShimOf returns the shim that Find found by a name; nil if the program is none.
func ShimOf(q Request, e *Env, name string, found Program) *Shim {
	dir := filepath.Dir(found.Path)
	if filepath.IsAbs(name) || filepath.Base(dir) != "shims" {
		return nil
	}
	resolver := &resolver{Request: q, Files: q.Host.Files, env: &Env{}, path: slices.DeleteFunc(
		filepath.SplitList(e.Vars["PATH"]), func(other string) bool { return other == dir })}
	shim := &Shim{Name: name, Path: found.Path}
	if p, err := resolver.binary(name); err == nil {
		shim.Past = p.Path
	}
	return shim
}

// byName finds a program by its absolute path, or by its name in PATH.
func (r *resolver) byName(name string) (Program, error) {
	if filepath.IsAbs(name) {
		return r.first(name, []string{name})
	}
	return r.first(name, r.inPath(name))
}

// inPath returns the paths of a name in PATH.
func (r *resolver) inPath(name string) []string {
	var paths []string
	for _, dir := range r.path {
		if !windows || filepath.Ext(name) != "" {
			paths = append(paths, filepath.Join(dir, name))
			continue
		}
		for _, ext := range []string{".com", ".exe", ".bat", ".cmd"} {
			paths = append(paths, filepath.Join(dir, name+ext))
		}
	}
	return paths
}

// binary finds an interpreter as byName does, but ignores scripts in PATH. Version managers put such scripts there,
// which select an interpreter by the directory and by unverified files.
func (r *resolver) binary(name string) (Program, error) {
	if filepath.IsAbs(name) {
		return r.first(name, []string{name})
	}
	missing := &NotFoundError{What: name, Tried: r.inPath(name)}
	for _, path := range missing.Tried {
		p, err := r.first(name, []string{path})
		if nested, ok := errors.AsType[*NotFoundError](err); ok && nested.Err != nil && missing.Err == nil {
			missing.Err = nested.Err
		}
		switch {
		case err != nil:
		case len(p.next) == 0:
			return p, nil
		case missing.Err == nil:
			missing.Err = fmt.Errorf("%q is a script, not an interpreter", path)
		}
	}
	return Program{}, missing
}

// first returns the program at the first usable path.
func (r *resolver) first(what string, paths []string) (Program, error) {
	missing := &NotFoundError{What: what, Tried: paths}
	for _, path := range paths {
		p, err := r.at(path, 0)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && missing.Err == nil {
			missing.Err = err
		}
		if nested, ok := errors.AsType[*NotFoundError](err); ok {
			missing.Err = fmt.Errorf("%q is a script: %w", path, nested)
			break
		}
	}
	return Program{}, missing
}

// maxScripts bounds the chain of scripts that interpret each other.
const maxScripts = 4

// at examines the program at a path.
func (r *resolver) at(path string, depth int) (Program, error) {
	program := Program{Path: path}
	real, err := r.Files.Real(path)
	if err != nil {
		return program, err
	}
	info, err := r.Files.Stat(real)
	if err != nil {
		return program, err
	}
	bad := func(why string) (Program, error) { return program, unusable(path, why) }
	switch {
	case !info.Mode().IsRegular():
		return bad("is not a regular file")
	case !windows && info.Mode().Perm()&0o111 == 0:
		return bad("is not executable")
	case !windows && info.Mode().Perm()&0o002 != 0:
		return bad("can be written by any user")
	case osfile.OwnedByOther(info):
		return bad("belongs to another user")
	case info.Size() > maxProgram:
		return bad("is too large")
	}
	if program.Real = real; !filepath.IsAbs(real) {
		return bad("does not resolve to an absolute path")
	}
	head, err := r.hash(&program)
	if err != nil {
		return program, err
	}
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return program, nil
	}
	if depth == maxScripts {
		return bad("is a script run by too many scripts")
	}
	return program, r.shebang(&program, line, depth)
}

// hash hashes a program and returns its beginning.
func (r *resolver) hash(program *Program) ([]byte, error) {
	file, err := r.Files.Open(program.Real)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	known := r.Host.Known
	began := known.now()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if head := known.recall(program, info, began); head != nil {
		return head, nil
	}
	hasher := cas.NewHasher()
	head := make([]byte, headLen)
	n, err := io.ReadFull(file, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	head = head[:n]
	hasher.Write(head)
	rest, err := io.CopyBuffer(hasher, io.LimitReader(file, maxProgram+1), make([]byte, 256<<10))
	if err != nil {
		return nil, err
	}
	if rest > maxProgram {
		return nil, unusable(program.Path, "is too large")
	}
	program.Digest, program.Size = hasher.Digest(), int64(n)+rest
	known.remember(program, head, file, info, began)
	return head, nil
}

// headLen is how much of the first line Linux reads.
const headLen = 256

// shebang finds the interpreter of a script, and the program that env would start.
func (r *resolver) shebang(program *Program, line []byte, depth int) error {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return unusable(program.Path, "has no absolute path after #!")
	}
	in, err := r.needed(program, words[0], depth)
	if err != nil {
		return err
	}
	program.next = append(program.next, in)
	if filepath.Base(words[0]) != "env" {
		return nil
	}
	words = words[1:]
	if len(words) > 0 && words[0] == "-S" {
		words = words[1:]
	}
	// Without -S the rest is one word. Options and variables of env could start anything.
	if len(words) == 0 || checkProgram(words[0]) != nil || strings.ContainsAny(words[0], `="'\$`) {
		return unusable(program.Path, "uses env in an unsupported way")
	}
	if in, err = r.byNameOf(program, words[0], depth); err != nil {
		return err
	}
	program.next = append(program.next, in)
	return nil
}

// needed examines the interpreter of a script.
func (r *resolver) needed(p *Program, path string, depth int) (Program, error) {
	in, err := r.at(path, depth+1)
	if err != nil {
		return in, &NotFoundError{What: path, Tried: []string{path}, Err: notAbsence(err)}
	}
	in.Name, in.Type, in.For = filepath.Base(path), "interpreter", p.Path
	return in, nil
}

// byNameOf finds the program that env starts for a script.
func (r *resolver) byNameOf(p *Program, name string, depth int) (Program, error) {
	missing := &NotFoundError{What: name}
	for _, dir := range r.path {
		path := filepath.Join(dir, name)
		in, err := r.needed(p, path, depth)
		if err == nil {
			return in, nil
		}
		missing.Tried = append(missing.Tried, path)
	}
	return Program{}, missing
}

// notAbsence returns an error unless it is fs.ErrNotExist.
func notAbsence(err error) error {
	if _, ok := errors.AsType[*NotFoundError](err); !ok && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// report records a program and those that it needs.
func (r *resolver) report(p Program) error {
	next := p.next
	p.next = nil
	if len(r.env.Programs) == maxPrograms {
		return fmt.Errorf("the chain needs more than %d programs", maxPrograms)
	}
	r.env.Programs = append(r.env.Programs, p)
	for _, n := range next {
		n.Link = p.Link
		if err := r.report(n); err != nil {
			return err
		}
	}
	return nil
}

// readSome reads a small file.
func (r *resolver) readSome(file string, most int64) ([]byte, error) {
	info, err := r.Files.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, unusable(file, "is not a regular file")
	}
	f, err := r.Files.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}
