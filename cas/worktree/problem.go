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

// maxProblems is how many problems are named; a directory of 100,000 sockets isn't listed whole.
const maxProblems = 100

// A Problem is something that can't stand in a tree.
type Problem struct {
	Path string // relative to the directory that was imported
	Err  error  // why; *portable.Error when it is the name
}

// A RefusedError lists everything in a directory that a tree can't hold, sorted by path.
type RefusedError struct {
	Problems []Problem
	More     bool // there are others, which were not looked for
}

// Error gives one line to each problem.
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

// describe returns the error for a file of a type that is refused. A directory in the place of a file, or a file in
// that of a directory, would have been welcome: what was listed has changed.
func describe(m fs.FileMode) error {
	switch {
	case m.IsDir(), m.IsRegular():
		return errSwapped
	case m&fs.ModeSymlink != 0:
		return &KindError{"symbolic link"}
	case m&fs.ModeNamedPipe != 0:
		return &KindError{"FIFO"}
	case m&fs.ModeSocket != 0:
		return &KindError{"socket"}
	case m&fs.ModeDevice != 0:
		return &KindError{"device"}
	}
	return &KindError{"special file"}
}

// problems collects what is refused, from several goroutines.
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

// any reports whether nothing can come of the import any more, so that reading files is a waste.
func (p *problems) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) > 0
}

// full reports whether looking for more is a waste, too.
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
