package runs

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/rye-build/rye/ai"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/threads"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/thread"
	"github.com/rye-build/rye/exec/thread/replay"
)

// This file has rye thread replay, and the replay of recordings for rye test.

type replayRun struct {
	Thread   string `arg:"" complete:"thread|path" help:"Thread id, directory, export or recording."`
	Pinned   bool   `help:"Replay under the lock that the thread began with."`
	Unlocked bool   `help:"Run without a lock (refused in CI)."`
}

type replayAnswer struct{ *replay.Played }

func (r replayAnswer) Text(t *cli.Terminal) {
	if r.Difference == nil {
		t.Printf("%s  as recorded: %s, %s\n", r.Thread, fault.Count(r.Turns, "turn"), r.Status)
	}
}

func (c *replayRun) Run(ctx context.Context, app *cli.App) (cli.Answer, error) {
	dir, done, err := threads.OpenRecord(ctx, app, c.Thread)
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := Open(ctx, app, session.Mode{Pinned: c.Pinned, Unlocked: c.Unlocked})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	engine, err := openEngine(app, s.Session, session.Mode{})
	if err != nil {
		return nil, err
	}
	defer engine.Close()
	if c.Pinned {
		if engine, err = engine.Under(ctx, dir); err != nil {
			return nil, err
		}
		defer engine.Close()
	}
	r, err := engine.PlayBack(ctx, dir)
	if err != nil {
		return nil, Reworded(app, err)
	}
	if d := r.Difference; d != nil {
		return replayAnswer{r}, d.Fault().Answer()
	}
	return replayAnswer{r}, nil
}

// recorded returns the paths of the recordings of a directive.
func recorded(f ai.File) (paths []string) {
	// A directory that is missing or unreadable has no recordings.
	paths, _ = fs.Glob(f.Space.FS, f.Kind.Dir+"/"+replay.RecordingDir(f.Ref.ID)+"/*"+replay.RecordingExt)
	return paths
}

// A recordingFile is a recording, read early because its space may be closed when it is played.
type recordingFile struct {
	name string
	text []byte
	err  error
}

// readAll reads the recordings of a directive.
func readAll(f ai.File) (all []recordingFile) {
	for _, p := range recorded(f) {
		b, err := fs.ReadFile(f.Space.FS, p)
		all = append(all, recordingFile{strings.TrimSuffix(path.Base(p), replay.RecordingExt), b, err})
	}
	return all
}

// play replays a directive from its recordings and adds the results to tool.
func (c *testRun) play(ctx context.Context, app *cli.App, s *Opened, candidate candidate, tool *testTool) error {
	it, err := s.Item(ctx, candidate.ref)
	if err != nil {
		return err
	}
	tool.Digest = it.Raw.String()
	engine, err := openEngine(app, s.Session, session.Mode{})
	if err != nil {
		return err
	}
	defer engine.Close()
	for i := range candidate.recordings {
		testExample := testExample{Name: candidate.recordings[i].name, Passed: true}
		began := app.Now()
		r, err := candidate.recordings[i].play(ctx, engine)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			err = r.Whole()
		}
		if err != nil {
			failed := fault.Of(err)
			testExample.Passed, testExample.Code, testExample.Why = false, string(failed.Code),
				append([]string{failed.Text}, failed.Why...)
		}
		testExample.DurationMS = app.Now().Sub(began).Milliseconds()
		tool.Examples = append(tool.Examples, testExample)
	}
	return nil
}

// play replays a thread from a recording in a temporary directory.
func (f *recordingFile) play(ctx context.Context, engine *thread.Engine) (*replay.Played, error) {
	if f.err != nil {
		return nil, f.err
	}
	events, err := replay.ReadRecording(bytes.NewReader(f.text))
	if err != nil {
		return nil, err
	}
	dir, err := osfile.TempDir("thread")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := replay.RestoreRecording(dir, events); err != nil {
		return nil, err
	}
	return engine.PlayBack(ctx, dir)
}
