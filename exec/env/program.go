package env

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
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
	r := &resolver{Request: q, Files: q.Host.Files, env: &Env{}, path: filepath.SplitList(e.Vars["PATH"])}
	if !filepath.IsAbs(name) {
		if err := checkProgram(name); err != nil {
			return nil, err
		}
	}
	p, err := r.byName(name)
	if err != nil {
		return nil, err
	}
	p.Name, p.Type = filepath.Base(name), "name"
	if err := r.report(p); err != nil {
		return nil, err
	}
	return r.env.Programs, nil
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
	p := Program{Path: path}
	real, err := r.Files.Real(path)
	if err != nil {
		return p, err
	}
	info, err := r.Files.Stat(real)
	if err != nil {
		return p, err
	}
	bad := func(why string) (Program, error) { return p, unusable(path, why) }
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
	if p.Real = real; !filepath.IsAbs(real) {
		return bad("does not resolve to an absolute path")
	}
	head, err := r.hash(&p)
	if err != nil {
		return p, err
	}
	line, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return p, nil
	}
	if depth == maxScripts {
		return bad("is a script run by too many scripts")
	}
	return p, r.shebang(&p, line, depth)
}

// hash hashes a program and returns its beginning.
func (r *resolver) hash(p *Program) ([]byte, error) {
	f, err := r.Files.Open(p.Real)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	known := r.Host.Known
	began := known.now()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if head := known.recall(p, info, began); head != nil {
		return head, nil
	}
	h := cas.NewHasher()
	head := make([]byte, headLen)
	n, err := io.ReadFull(f, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	head = head[:n]
	h.Write(head)
	rest, err := io.CopyBuffer(h, io.LimitReader(f, maxProgram+1), make([]byte, 256<<10))
	if err != nil {
		return nil, err
	}
	if rest > maxProgram {
		return nil, unusable(p.Path, "is too large")
	}
	p.Digest, p.Size = h.Digest(), int64(n)+rest
	known.remember(p, head, f, info, began)
	return head, nil
}

// headLen is how much of the first line Linux reads.
const headLen = 256

// shebang finds the interpreter of a script, and the program that env would start.
func (r *resolver) shebang(p *Program, line []byte, depth int) error {
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 || !filepath.IsAbs(words[0]) {
		return unusable(p.Path, "has no absolute path after #!")
	}
	in, err := r.needed(p, words[0], depth)
	if err != nil {
		return err
	}
	p.next = append(p.next, in)
	if filepath.Base(words[0]) != "env" {
		return nil
	}
	words = words[1:]
	if len(words) > 0 && words[0] == "-S" {
		words = words[1:]
	}
	// Without -S the rest is one word. Options and variables of env could start anything.
	if len(words) == 0 || checkProgram(words[0]) != nil || strings.ContainsAny(words[0], `="'\$`) {
		return unusable(p.Path, "uses env in an unsupported way")
	}
	if in, err = r.byNameOf(p, words[0], depth); err != nil {
		return err
	}
	p.next = append(p.next, in)
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
