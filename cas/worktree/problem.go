package worktree

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/rye-build/rye/cas/fault"
)

// maxProblems limits the listed problems: a directory of 100,000 sockets isn't listed whole.
const maxProblems = 100

// A Problem is a file or directory that a tree can't hold.
type Problem struct {
	Path string // relative to the directory that was imported
	Err  error  // the reason; *portable.Error for an invalid name
}

// A RefusedError lists everything in a directory that a tree can't hold, sorted by path.
type RefusedError struct {
	Problems []Problem
	More     bool // the list stopped at a limit; others may exist
}

// Error returns one line for each problem.
func (e *RefusedError) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%q: %v", p.Path, p.Err)
	}
	if e.More {
		b.WriteString("\nand more")
	}
	return b.String()
}

// Unwrap returns the reasons.
func (e *RefusedError) Unwrap() []error {
	errs := make([]error, len(e.Problems))
	for i := range e.Problems {
		errs[i] = e.Problems[i].Err
	}
	return errs
}

// Fault returns e with its code and a line for each problem.
func (e *RefusedError) Fault() *fault.Error {
	return fault.New(fault.Validation, "some files can't be stored in a tree").Because(strings.Split(e.Error(),
		"\n")...).From(e)
}

// A KindError reports something that is neither a regular file nor a directory.
type KindError struct{ Kind string } // "symbolic link", "device", "FIFO", "socket" or "special file"

func (e *KindError) Error() string { return "is a " + e.Kind + ", which trees can't hold" }

// IsLink reports whether it is a symbolic link: the file that it leads to can take its place.
func (e *KindError) IsLink() bool { return e.Kind == symbolicLink }

const symbolicLink = "symbolic link"

// describe returns the error for a file of a type that trees can't hold. A regular file or a directory gets here only
// if one took the other's place after it was listed.
func describe(m fs.FileMode) error {
	switch {
	case m.IsDir(), m.IsRegular():
		return errSwapped
	case m&fs.ModeSymlink != 0:
		return &KindError{symbolicLink}
	case m&fs.ModeNamedPipe != 0:
		return &KindError{"FIFO"}
	case m&fs.ModeSocket != 0:
		return &KindError{"socket"}
	case m&fs.ModeDevice != 0:
		return &KindError{"device"}
	}
	return &KindError{"special file"}
}

// problems collects the refused files, from several goroutines.
type problems struct {
	mu   sync.Mutex
	list []Problem
	more bool
}

func (p *problems) add(path string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == maxProblems {
		p.more = true
		return
	}
	p.list = append(p.list, Problem{path, err})
}

// any reports whether the import has failed, so that it need not read more files.
func (p *problems) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) > 0
}

// full reports whether the list is full, so that the import need not search for more problems either.
func (p *problems) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.more
}

func (p *problems) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == 0 {
		return nil
	}
	slices.SortFunc(p.list, func(a, b Problem) int { return cmp.Compare(a.Path, b.Path) })
	return &RefusedError{Problems: p.list, More: p.more}
}
