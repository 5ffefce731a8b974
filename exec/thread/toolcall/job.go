package toolcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/proc"
	"github.com/rye-build/rye/manifest/attest"
	"github.com/rye-build/rye/manifest/key"
)

// A Job is what a process is started for.
type Job struct {
	Thread string         `json:"thread"`          // the id that it has to take
	Stdin  string         `json:"stdin,omitempty"` // what its starter read there
	Child  *DetachedChild `json:"child,omitempty"` // of a thread that another has started
	// Signed is the envelope by which the machine key signs the job of a child, whose parent and limits stand in no
	// token. Its payload is the digest of the job without it.
	Signed json.RawMessage `json:"signed,omitempty"`
}

const jobType = "application/vnd.rye.job.v2"

func (j *Job) digest() ([]byte, error) {
	plain := *j
	plain.Signed = nil
	b, err := json.Marshal(&plain)
	return []byte(cas.Sum(b).String()), err
}

// Sign signs the job.
func (j *Job) Sign(machine key.Private) error {
	payload, err := j.digest()
	if err != nil {
		return err
	}
	e, err := attest.NewEnvelope(jobType, payload)
	if err == nil {
		err = e.Sign(machine)
	}
	if err == nil {
		j.Signed, err = e.Append(nil)
	}
	return err
}

// verify refuses a job that isn't as the machine key has signed it.
func (j *Job) verify(machine key.Public) error {
	denied := fault.New(fault.Denied, "the job of the thread %s was not signed by this machine", j.Thread).
		On("thread", j.Thread).Try("rye docs threads")
	e, err := attest.ParseEnvelope(j.Signed)
	if err != nil {
		return denied.From(err)
	}
	kind, payload, _, err := e.Verify([]key.Public{machine}, 1)
	if err != nil {
		return denied.From(err)
	}
	is, err := j.digest()
	if err == nil && (kind != jobType || !bytes.Equal(payload, is)) {
		err = denied.Because("it was changed")
	}
	return err
}

// maxJob bounds what a process reads.
const maxJob = 32 << 20

// LogFile is the name of the file in the thread's directory.
const LogFile = "log"

// A Word is the answer of the process: its thread has begun, or the reason why not.
type Word struct {
	Thread  string        `json:"thread,omitempty"`
	Process int           `json:"process,omitempty"`
	Error   *fault.Object `json:"error,omitempty"`
}

// maxWord bounds it.
const maxWord = 1 << 20

// ReceiveJob reads the job of this process.
func ReceiveJob(r io.Reader) (*Job, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxJob+1))
	if err != nil {
		return nil, err
	}
	return ParseJob(b)
}

// ParseJob reads a job.
func ParseJob(b []byte) (*Job, error) {
	job := new(Job)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	d.UseNumber()
	err := d.Decode(job)
	if err == nil && (len(b) > maxJob || d.More() || job.Thread == "") {
		err = errors.New("it names no thread, or something follows it")
	}
	if err != nil {
		return nil, fault.New(fault.Validation,
			"--detached is for processes that rye starts: no job on standard input").From(err).Try("rye run --help")
	}
	return job, nil
}

// Tell writes the word, and closes standard output.
func Tell(w io.WriteCloser, word *Word) error {
	b, err := json.Marshal(word)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return errors.Join(err, w.Close())
}

// patience is how long a process may take to begin its thread.
const patience = time.Minute

// StartDetached starts a process for a job, whose thread has its directory in dir, and returns when the thread is
// registered. What went wrong before is an error, and leaves nothing behind.
func StartDetached(ctx context.Context, command proc.Command, dir string, job *Job) (*Word, error) {
	text, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(dir, LogFile), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		_ = os.Remove(dir)
		return nil, err
	}
	defer log.Close()
	word, err := start(ctx, command, log, text)
	if err == nil && word.Thread != job.Thread {
		err = word.failure(log)
	}
	if err != nil {
		_ = os.Remove(log.Name())
		_ = os.Remove(dir) // unless there is more: a thread that began and ended at once has a transcript
		return nil, err
	}
	return word, nil
}

func start(ctx context.Context, command proc.Command, log *os.File, job []byte) (*Word, error) {
	in, give, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	take, out, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close(), give.Close())
	}
	defer take.Close()
	ended := make(chan error, 1)
	process, err := proc.Detach(command, in, out, log, func(err error) { ended <- err })
	if err = errors.Join(err, in.Close(), out.Close()); err != nil {
		return nil, errors.Join(err, give.Close())
	}
	go func() {
		_, _ = give.Write(job) // a process that doesn't read its job reports its own error
		give.Close()
	}()
	answered := make(chan *Word, 1)
	go func() {
		word := new(Word)
		if json.NewDecoder(io.LimitReader(take, maxWord)).Decode(word) != nil {
			word = new(Word)
		}
		answered <- word
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		fault.New(fault.Timeout, "the process %d didn't begin its thread within %s", process.Pid, patience))
	defer cancel()
	select {
	case word := <-answered:
		return word, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), process.Kill(), <-ended)
	}
}

// failure is the error of a process that began no thread.
func (w *Word) failure(log *os.File) error {
	if e := w.Error; e != nil {
		failed := fault.New(e.Code, "%s", e.Message)
		failed.Details, _ = e.Details.(map[string]any)
		why, _ := failed.Details["why"].([]any)
		for _, line := range why {
			failed.Because(fmt.Sprint(line))
		}
		delete(failed.Details, "why")
		if e.Suggestion != "" {
			for _, line := range strings.Split(e.Suggestion, "\n") {
				failed.Try(line)
			}
		}
		return failed
	}
	failed := fault.New(fault.Failed, "the process ended before its thread began")
	const most = 2000
	text := make([]byte, most)
	n, _ := log.ReadAt(text, 0)
	if said := strings.TrimSpace(string(text[:n])); said != "" {
		failed.Because(fmt.Sprintf("it wrote: %q", said))
	}
	return failed
}
