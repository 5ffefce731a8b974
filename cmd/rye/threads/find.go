package threads

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/suggest"
	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/cmd/rye/paths"
	"github.com/rye-build/rye/exec/thread/control"
	"github.com/rye-build/rye/exec/thread/replay"
	"github.com/rye-build/rye/exec/thread/transcript"
	"github.com/rye-build/rye/exec/thread/transcript/export"
	v1 "github.com/rye-build/rye/exec/thread/transcript/v1"
)

// A source is a transcript that an argument names.
type source struct {
	name   string // the argument
	thread string // the expected thread id; "" for any
	dir    string // of the thread
	lines  string // the file with the lines
	export string // the export to unpack into dir; "" if it is none
	v1     bool
	signed bool // rye 1 only: thread.json signs the status
}

// zstd is the magic number with which every export begins.
var zstd = []byte{0x28, 0xb5, 0x2f, 0xfd}

// find finds the transcript that an argument names. The caller calls done, which removes temporary files.
func find(a *cli.App, arg string) (found *source, done func(), err error) {
	at := a.Absolute(cli.Setting{Value: arg})
	if at.Err != nil {
		return nil, nil, at.Err
	}
	found, done = &source{name: arg, dir: at.Value}, func() {}
	switch fi, err := os.Stat(at.Value); {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.NotDirectory):
		if found.thread, found.dir, err = threadDir(a, arg); err != nil {
			return nil, nil, err
		}
	case err != nil:
		return nil, nil, err
	case !fi.IsDir():
		found.lines, found.dir = at.Value, filepath.Dir(at.Value)
	}
	if found.lines == "" {
		found.lines = filepath.Join(found.dir, transcript.LinesFile)
	}
	head, err := beginning(found.lines)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fault.New(fault.NotFound, "%q has no %s", arg, transcript.LinesFile).From(err).
			Try("rye thread list")
	}
	if err != nil {
		return nil, nil, err
	}
	isExport, isRecording := bytes.HasPrefix(head, zstd), replay.IsRecording(head)
	if !isExport && !isRecording {
		found.v1 = v1.Is(head)
		return found, done, nil
	}
	file := found.lines
	if found.dir, err = osfile.TempDir("thread"); err != nil {
		return nil, nil, err
	}
	done = func() { os.RemoveAll(found.dir) }
	found.lines = filepath.Join(found.dir, transcript.LinesFile)
	if isExport {
		found.export = file
		return found, done, nil
	}
	if err := restore(file, found.dir); err != nil {
		done()
		return nil, nil, fault.Wrap(err, "%q: %v", arg, err)
	}
	return found, done, nil
}

// restore writes the transcript of a recording into a directory.
func restore(file, dir string) error {
	f, err := osfile.OpenRegular(file)
	if err != nil {
		return err
	}
	defer f.Close()
	events, err := replay.ReadRecording(f)
	if err != nil {
		return err
	}
	return replay.RestoreRecording(dir, events)
}

// unpack unpacks the transcript if it is an export. It doesn't check signatures.
func (s *source) unpack(ctx context.Context) error {
	if s.export == "" {
		return nil
	}
	f, err := osfile.OpenRegular(s.export)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := export.Unpack(ctx, f, s.dir); err != nil {
		return fault.Wrap(err, "%q: %v", s.name, err)
	}
	return nil
}

// OpenRecord returns a directory with the transcript of a thread. arg is an id, a directory, an export, a recording
// or a transcript.jsonl. The caller calls done. It doesn't check signatures.
func OpenRecord(ctx context.Context, a *cli.App, arg string) (dir string, done func(), err error) {
	source, done, err := find(a, arg)
	if err != nil {
		return "", nil, err
	}
	if err = source.unpack(ctx); err == nil && (source.v1 || filepath.Base(source.lines) != transcript.LinesFile) {
		err = fault.New(fault.Validation, "%q is not a transcript of this version of rye", arg)
	}
	if err != nil {
		done()
		return "", nil, err
	}
	return source.dir, done, nil
}

// beginning reads the first line of a file.
func beginning(path string) ([]byte, error) {
	f, err := osfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := bufio.NewReader(io.LimitReader(f, v1.MaxLine)).ReadBytes('\n')
	if err == io.EOF {
		err = nil
	}
	return b, err
}

// threadsDir returns the directory of the project's threads.
func threadsDir(a *cli.App) (string, error) {
	p, err := paths.Paths(a).FindProject()
	if err != nil {
		return "", err
	}
	return filepath.Join(p.DotAI(), "threads"), nil
}

// threadDir returns the id and the directory of a thread of the project. name is its id or the beginning of it.
func threadDir(app *cli.App, name string) (id, dir string, err error) {
	if transcript.CheckThread(name) != nil {
		return "", "", fault.New(fault.NotFound, "%q is neither a file nor the id of a thread",
			name).Try("rye thread list")
	}
	all, err := threadsDir(app)
	if err != nil {
		return "", "", err
	}
	missing, err := unread(app, name)
	if err == nil && missing[name] != nil {
		err = noTranscript(missing[name])
	}
	if err != nil {
		return "", "", err
	}
	if dir = filepath.Join(all, filepath.FromSlash(name)); transcript.Exists(dir) {
		return name, dir, nil
	}
	known := ids(all)
	if id, err = control.Match(name, known); err != nil || id != "" {
		return id, filepath.Join(all, filepath.FromSlash(id)), err
	}
	if missing, err = unread(app, ""); err == nil {
		id, err = control.Match(name, slices.Sorted(maps.Keys(missing)))
	}
	if err == nil && id != "" {
		err = noTranscript(missing[id])
	}
	if err == nil {
		err = control.Unregistered(filepath.Dir(filepath.Dir(all)), name)
	}
	if err != nil {
		return "", "", err
	}
	f := fault.New(fault.NotFound, "no thread %q in this project", name)
	if similar := suggest.Names(name, known); len(similar) > 0 {
		return "", "", f.Because("did you mean " + similar[0] + "?").Try("rye thread show " + fault.Quote(similar[0]))
	}
	return "", "", f.Try("rye thread list")
}

// mostIDs limits the threads that completion and suggestions consider.
const mostIDs = 1000

// ids lists the threads below a directory. It skips what it can't read.
func ids(all string) (found []string) {
	filepath.WalkDir(all, func(path string, e fs.DirEntry, err error) error {
		if err != nil || len(found) >= mostIDs {
			return fs.SkipAll
		}
		if isRemoved(e) {
			return fs.SkipDir
		}
		if !e.IsDir() && e.Name() == transcript.LinesFile {
			if id, err := filepath.Rel(all, filepath.Dir(path)); err == nil {
				found = append(found, filepath.ToSlash(id))
			}
		}
		return nil
	})
	return found
}

// CompleteThreads offers the ids of the project's threads.
func CompleteThreads(a *cli.App, prefix string) (out []cli.Candidate) {
	all, err := threadsDir(a)
	if err != nil {
		return nil
	}
	for _, id := range ids(all) {
		if strings.HasPrefix(id, prefix) {
			out = append(out, cli.Candidate{Value: id})
		}
	}
	return out
}

// open returns a reader for the lines and payloads, and a function that closes it.
func (s *source) open() (*transcript.Reader, func(), error) {
	if filepath.Base(s.lines) == transcript.LinesFile {
		r, err := transcript.OpenReader(s.dir)
		if err != nil {
			return nil, nil, err
		}
		return r, func() { r.Close() }, nil
	}
	lines, err := osfile.OpenRegular(s.lines)
	if err != nil {
		return nil, nil, err
	}
	return transcript.NewReader(lines, nil), func() { lines.Close() }, nil
}

// verify verifies the transcript. It unpacks an export first.
func (s *source) verify(ctx context.Context, check transcript.Check) (*transcript.Report, *export.Report, error) {
	check.Thread = s.thread
	switch {
	case s.export != "":
		f, err := osfile.OpenRegular(s.export)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		r, err := export.Verify(ctx, f, s.dir, check)
		if err != nil {
			return nil, nil, fault.Wrap(err, "%q: %v", s.name, err)
		}
		return r.Report, r, nil
	case s.v1:
		f, err := osfile.OpenRegular(s.lines)
		if err != nil {
			return nil, nil, err
		}
		defer f.Close()
		r, err := v1.Verify(ctx, f, check.Keys)
		if err == nil && r.Problem == nil {
			err = s.statusOf(r, check.Keys)
		}
		return r, nil, err
	}
	r, done, err := s.open()
	if err != nil {
		return nil, nil, err
	}
	defer done()
	rep, err := transcript.VerifyReader(ctx, r, check)
	return rep, nil, err
}

// threadFile is the signed file that rye 1 keeps next to a transcript.
const threadFile = "thread.json"

// statusOf compares the status of a transcript of rye 1, which no checkpoint proves, with that of its signed
// thread.json.
func (s *source) statusOf(report *transcript.Report, keys v1.Keys) error {
	at := filepath.Join(filepath.Dir(s.lines), threadFile)
	b, err := osfile.ReadSmall(at, v1.MaxLine)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	status, _, err := v1.VerifyThread(b, keys)
	if err != nil {
		return fault.Wrap(err, "%q: %v", at, err)
	}
	// rye 1 leaves "running" when it is killed
	if s.signed = status == report.Status; !s.signed && status != "running" {
		report.Problem = &transcript.Problem{Line: report.Lines, Kind: transcript.Edited,
			Reason: fmt.Sprintf("the thread ends with the status %s, and with %.20q in %s, which is signed",
				report.Status,
				status, threadFile)}
	}
	return nil
}

// A step is an event to show.
type step struct {
	Line    int64              `json:"line"`
	Time    string             `json:"time"`
	Type    transcript.Type    `json:"type"`
	Payload transcript.Payload `json:"payload"`
	thread  string
}

const timeForm = "2006-01-02T15:04:05.000Z"

// each calls visit with every event that can be shown. At a damaged line it stops without an error.
func (s *source) each(ctx context.Context, visit func(step) error) error {
	next, done, err := s.events()
	if err != nil {
		return err
	}
	defer done()
	for {
		e, err := next()
		if _, bad := errors.AsType[*transcript.Problem](err); bad || err == io.EOF {
			return nil
		}
		if err == nil && e.Payload != nil {
			err = visit(e)
		}
		if err = errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
	}
}

// events returns a function that returns the next event, whatever the format. The caller calls done.
func (s *source) events() (next func() (step, error), done func(), err error) {
	if !s.v1 {
		r, done, err := s.open()
		return func() (step, error) {
			e, err := r.Next()
			if err != nil {
				return step{}, err
			}
			p, err := e.Says()
			return step{e.Seq, e.Time.Format(timeForm), e.Type, p, e.Thread}, err
		}, done, err
	}
	file, err := osfile.OpenRegular(s.lines)
	if err != nil {
		return nil, nil, err
	}
	r := v1.NewReader(file)
	var c v1.Converter
	return func() (step, error) {
		e, err := r.Next()
		if err != nil {
			return step{}, err
		}
		p := c.Says(e)
		if p == nil {
			return step{}, nil
		}
		return step{e.Line, e.Time.Format(timeForm), p.Type(), p, e.Thread}, nil
	}, func() { file.Close() }, nil
}
