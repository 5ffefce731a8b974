package paths

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/statcache"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/lock/recall"
	"github.com/rye-build/rye/lock/workspace"
	"github.com/rye-build/rye/manifest/trust"
)

// This file builds the keys under which commands cache their answers (lock/recall).

// A Question is a recall.Question of a command. A nil Question never has an answer.
type Question struct{ recall.Question }

// AskOfLock returns the question whether a lock is up to date.
func AskOfLock(ctx context.Context, l *Lock) *Question {
	if l.Trust == nil {
		var err error
		if l.Trust, err = l.Policy(); err != nil {
			return nil
		}
	}
	return ask(ctx, l.App, l.Trust, "lock", "", recall.Tree{Dir: l.Dir, Space: l.User})
}

// AskOfItems returns a question of a command about all items of a project. It is nil outside of projects, where
// installed bundles count, and without a policy.
func (w *Workspace) AskOfItems(ctx context.Context, command, under string) *Question {
	t, err := w.Policy()
	if err != nil || w.Root.Root == "" {
		return nil
	}
	trees := []recall.Tree{{Dir: w.Root.Root}}
	if w.UserCounts() {
		trees = append(trees, recall.Tree{Dir: w.UserSpace().Path, Space: true})
	}
	// Answers contain paths relative to the working directory.
	return ask(ctx, w.App, t, command, fmt.Sprintf("%q %s", w.Show(filepath.Join(w.Root.Root, workspace.MarkerDir)),
		under), trees...)
}

// ask returns the question for a command. It is nil if answers can't be cached.
func ask(ctx context.Context, app *cli.App, trusted *trust.Trust, command, under string,
	trees ...recall.Tree) *Question {
	dir, err := BundleMemories(app)
	if err != nil {
		return nil
	}
	program, err := ThisProgram()
	if err != nil {
		return nil
	}
	sum := cas.Sum([]byte(command + "\x00" + trees[0].Dir))
	return &Question{recall.Question{
		Trees: trees, Trust: trusted.Exam(), File: filepath.Join(dir, hex.EncodeToString(sum[:16])),
		Cache: func() (*statcache.Cache, func(files, read int64)) {
			c := OpenStatCache(app, false)
			return c.Cache, func(files, read int64) {
				c.Files.Store(files)
				c.Read.Add(read)
				c.Finish(ctx, app)
			}
		},
		Under: fmt.Sprintf("%s %s %s", command, program, under),
	}}
}

// Recall returns the answer for the current state, if it is cached.
func (q *Question) Recall(ctx context.Context) ([]byte, bool) {
	if q == nil {
		return nil, false
	}
	return q.Question.Recall(ctx)
}

// Keep caches an answer unless something has changed since Recall.
func (q *Question) Keep(ctx context.Context, answer []byte) {
	if q != nil {
		q.Question.Keep(ctx, answer)
	}
}

// headSize is how far Go itself searches for the linker's digest of a program's contents.
const headSize = 32 << 10

// ThisProgram returns an id of this binary, because another build may give other answers: builds of one commit with
// local changes have the same version.
func ThisProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(self)
	if err != nil {
		return "", err
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, headSize))
	return fmt.Sprintf("%+v %s", cli.ThisVersion(), cas.Sum(head)), err
}
