package git

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

const (
	// MaxTree is the largest size of a tree, in bytes.
	MaxTree   = 16 << 20
	maxCommit = 1 << 20
	maxHeader = 200
	maxDeep   = 32
	maxKept   = 1 << 20 // cached entries of trees
)

// A Commit is a fetched commit. Close it after use.
type Commit struct {
	ID string

	dir  string
	tree string
	mu   sync.Mutex // git answers in the order of the requests
	ask  io.WriteCloser
	got  *bufio.Reader
	stop context.CancelFunc
	done chan struct{}

	failed error                       // every later request returns it
	trees  map[string]map[string]entry // cached, by their names
	kept   int                         // the number of their entries
}

// open starts git cat-file in a fetched repository.
func (c *Client) open(ctx context.Context, dir, bare, address, id string) (*Commit, error) {
	// The commit outlives the operation that fetched it.
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	in, ask := io.Pipe()
	out, answers := io.Pipe()
	k := &Commit{ID: id, dir: dir, ask: ask, got: bufio.NewReaderSize(out, 64<<10), done: make(chan struct{}),
		trees: map[string]map[string]entry{},
		stop:  func() { cancel(); ask.Close(); out.Close() }}
	go func() {
		defer close(k.done)
		err := c.run(running, bare, address, in, answers, "cat-file", "--batch")
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		in.CloseWithError(err)
		answers.CloseWithError(err)
	}()
	err := k.begin(ctx)
	if err != nil {
		k.end()
		return nil, err
	}
	return k, nil
}

// begin reads the commit object.
func (k *Commit) begin(ctx context.Context) error {
	var text bytes.Buffer
	if err := k.object(ctx, "the commit", k.ID, "commit", maxCommit, &text); err != nil {
		return err
	}
	line, _, _ := strings.Cut(text.String(), "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok || !isName(tree) || len(tree) != len(k.ID) {
		return objectError(k.ID, errCommit)
	}
	k.tree = tree
	return nil
}

// end stops git and waits for it.
func (k *Commit) end() {
	k.stop()
	<-k.done
}

// Close removes the fetched data.
func (k *Commit) Close() error {
	k.end()
	return os.RemoveAll(k.dir)
}

// Temp makes a directory that is removed with the commit at the latest.
func (k *Commit) Temp() (string, error) { return os.MkdirTemp(k.dir, "files-") }

// Copy writes the bytes of a file, and reports whether it is executable. The hash is checked at the end, so the
// written bytes count only if there is no error. A file of more than most bytes is a *LimitError, and nothing is
// written.
func (k *Commit) Copy(ctx context.Context, w io.Writer, path string, most int64) (exec bool, err error) {
	e, err := k.find(ctx, path)
	if err != nil {
		return false, err
	}
	return e.mode == modeExec, k.object(ctx, fmt.Sprintf("%+q", path), e.name, "blob", most, w)
}

// find finds the tree entry of a file.
func (k *Commit) find(ctx context.Context, path string) (entry, error) {
	at, err := k.entry(ctx, path)
	if err == nil && at.mode != modeFile && at.mode != modeExec {
		err = pathError(path, at.what())
	}
	return at, err
}

// entry finds the tree entry of a path.
func (k *Commit) entry(ctx context.Context, path string) (entry, error) {
	segments := strings.Split(path, "/")
	if len(segments) > maxDeep {
		return entry{}, pathError(path, fmt.Sprintf("nested deeper than %d directories", maxDeep))
	}
	at := entry{mode: modeDir, name: k.tree}
	for i, segment := range segments {
		if at.mode != modeDir {
			return at, pathError(strings.Join(segments[:i], "/"), at.what())
		}
		tree, err := k.readTree(ctx, at.name)
		if err != nil {
			return at, err
		}
		var found bool
		if at, found = tree[segment]; !found {
			return at, pathError(path, "")
		}
	}
	return at, nil
}

func (k *Commit) readTree(ctx context.Context, name string) (map[string]entry, error) {
	k.mu.Lock()
	tree, ok := k.trees[name]
	k.mu.Unlock()
	if ok {
		return tree, nil
	}
	var b bytes.Buffer
	if err := k.object(ctx, "a directory", name, "tree", MaxTree, &b); err != nil {
		return nil, err
	}
	tree, err := parseTree(b.Bytes(), len(name)/2)
	if err != nil {
		return nil, objectError(name, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept+len(tree) <= maxKept {
		k.trees[name] = tree
		k.kept += len(tree)
	}
	return tree, nil
}

// object requests an object from git and writes its bytes. Without an error they match its name. what is the object's
// name in errors about its size.
func (k *Commit) object(ctx context.Context, what, name, kind string, most int64, out io.Writer) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed != nil {
		return k.failed
	}
	// End git when the caller's context ends.
	release := context.AfterFunc(ctx, k.stop)
	defer release()
	defer func() {
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		// After a partly read answer, later ones can't be parsed.
		k.failed = err
		k.stop()
	}()
	if _, err := io.WriteString(k.ask, name+"\n"); err != nil {
		return err
	}
	line, err := k.got.ReadSlice('\n')
	if err != nil {
		return err
	}
	size, err := parseHeader(string(line), name, kind)
	if err != nil {
		return objectError(name, err)
	}
	if size > most {
		return limitError(what, most)
	}
	h := newHash(name)
	fmt.Fprintf(h, "%s %d\x00", kind, size)
	if _, err := io.CopyN(io.MultiWriter(h, out), k.got, size); err != nil {
		return err
	}
	if end, err := k.got.ReadByte(); err != nil || end != '\n' {
		return objectError(name, errAnswer)
	}
	if hex.EncodeToString(h.Sum(nil)) != name {
		return objectError(name, errHash)
	}
	return nil
}

// newHash returns the hash whose names are as long as this one.
func newHash(name string) hash.Hash {
	if len(name) == 64 {
		return sha256.New()
	}
	return sha1.New()
}

// parseHeader parses the line before an object: its name, type and size.
func parseHeader(line, name, kind string) (int64, error) {
	line, ended := strings.CutSuffix(line, "\n")
	if len(line) > maxHeader || !ended {
		return 0, errAnswer
	}
	if line == name+" missing" {
		return 0, errMissing
	}
	words := strings.Split(line, " ")
	if len(words) != 3 || words[0] != name {
		return 0, errAnswer
	}
	if words[1] != kind {
		return 0, fmt.Errorf("it is a %+q, expected a %s", words[1], kind)
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != words[2] {
		return 0, errAnswer
	}
	return size, nil
}

// The modes of the entries of a tree.
const (
	modeDir    = "40000"
	modeFile   = "100644"
	modeExec   = "100755"
	modeLink   = "120000"
	modeModule = "160000"
)

// An entry is an entry of a tree: its mode, and the object's name.
type entry struct{ mode, name string }

func (e entry) what() string {
	switch e.mode {
	case modeLink:
		return "a symbolic link"
	case modeModule:
		return "a submodule, which rye does not fetch"
	case modeDir:
		return "a directory"
	}
	return "a file"
}

// parseTree parses a tree whose object names have that many bytes.
func parseTree(data []byte, length int) (map[string]entry, error) {
	tree := map[string]entry{}
	for len(data) > 0 {
		mode, rest, sp := bytes.Cut(data, []byte(" "))
		called, rest, nul := bytes.Cut(rest, []byte{0})
		if !sp || !nul || len(called) == 0 || len(rest) < length || bytes.IndexByte(called, '/') >= 0 {
			return nil, errTree
		}
		entry := entry{string(mode), hex.EncodeToString(rest[:length])}
		switch entry.mode {
		case modeDir, modeFile, modeExec, modeLink, modeModule:
		case "100664": // as git wrote it once
			entry.mode = modeFile
		default:
			return nil, errTree
		}
		if _, twice := tree[string(called)]; twice {
			return nil, errTree
		}
		tree[string(called)] = entry
		data = rest[length:]
	}
	return tree, nil
}
