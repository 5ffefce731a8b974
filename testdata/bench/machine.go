package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A command is one process to start.
type command struct {
	argv []string
	dir  string
	env  []string
	out  string // file for standard output
}

func cmd(argv ...string) command { return command{argv: argv} }

func (c command) in(dir string) command          { c.dir = dir; return c }
func (c command) with(env ...string) command     { c.env = append(c.env, env...); return c }
func (c command) onto(file string) command       { c.out = file; return c }
func (c command) through(argv ...string) command { c.argv = append(argv, c.argv...); return c }

// A sample is what one run cost.
type sample struct {
	Wall  float64 `json:"wall"`            // seconds
	CPU   float64 `json:"cpu"`             // seconds, user and system
	RSS   int64   `json:"rss"`             // bytes, of the largest process
	Bytes int64   `json:"bytes,omitempty"` // the store's, after it
	Added int64   `json:"added,omitempty"` // the store's growth
}

// A machine starts processes in a directory of its own, with an environment that is the same everywhere.
type machine struct {
	dir     string // everything below is ours
	env     []string
	log     string // what the running process says
	trashed int
	fs      string
}

func newMachine(dir string) *machine {
	home := filepath.Join(dir, "home")
	m := &machine{dir: dir, log: filepath.Join(dir, "log"), fs: fsType(dir)}
	m.env = []string{
		"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + home, "TMPDIR=" + dir,
		"XDG_CACHE_HOME=" + home + "/.cache", "XDG_CONFIG_HOME=" + home + "/.config",
		"XDG_DATA_HOME=" + home + "/.local/share", "XDG_STATE_HOME=" + home + "/.local/state",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@b", "GIT_COMMITTER_NAME=b",
		"GIT_COMMITTER_EMAIL=b@b",
		"RESTIC_PASSWORD=x", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes", "BORG_RELOCATED_REPO_ACCESS_IS_OK=yes",
	}
	return m
}

// run runs commands one after the other and adds up what they cost.
func (m *machine) run(ctx context.Context, cmds ...command) (sample, error) {
	var s sample
	for _, c := range cmds {
		one, err := m.one(ctx, c)
		s.Wall += one.Wall
		s.CPU += one.CPU
		s.RSS = max(s.RSS, one.RSS)
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func (m *machine) one(ctx context.Context, c command) (s sample, err error) {
	// A file, not a pipe: nothing of ours runs while the process does.
	log, err := os.Create(m.log)
	if err != nil {
		return s, err
	}
	defer log.Close()
	p := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
	p.Dir, p.Env, p.Stdout, p.Stderr = c.dir, append(m.env[:len(m.env):len(m.env)], c.env...), log, log
	if p.Dir == "" {
		p.Dir = m.dir
	}
	if c.out != "" {
		out, err := os.Create(c.out)
		if err != nil {
			return s, err
		}
		defer out.Close()
		p.Stdout = out
	}
	began := time.Now()
	err = p.Run()
	s.Wall = time.Since(began).Seconds()
	if p.ProcessState != nil {
		s.CPU = (p.ProcessState.UserTime() + p.ProcessState.SystemTime()).Seconds()
		s.RSS = peakMemory(p.ProcessState)
	}
	if ctx.Err() != nil {
		return s, ctx.Err()
	}
	if err != nil {
		said, _ := os.ReadFile(m.log)
		return s, fmt.Errorf("%s: %w: %s", strings.Join(c.argv[:min(len(c.argv), 6)], " "), err, lastWords(said))
	}
	return s, nil
}

func lastWords(said []byte) string {
	said = bytes.TrimSpace(said)
	return string(said[max(0, len(said)-300):])
}

// few is how many files may be deleted without harm to who creates files next.
const few = 100

// away makes a path not exist.
func (m *machine) away(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if m.fs == "tmpfs" {
		return removeAll(path)
	}
	if _, n := usage(path); n < few {
		return removeAll(path)
	}
	trash := filepath.Join(m.dir, "trash")
	if err := os.MkdirAll(trash, 0o777); err != nil {
		return err
	}
	m.trashed++
	// A read-only directory can't be moved: its ".." would change.
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
		if err := os.Chmod(path, 0o700); err != nil {
			return err
		}
	}
	return os.Rename(path, filepath.Join(trash, strconv.Itoa(m.trashed)))
}

// clear deletes everything of ours.
func (m *machine) clear() {
	if err := removeAll(m.dir); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
}

// removeAll deletes directories that nobody may write to as well: some stores make theirs so.
func removeAll(path string) error {
	if os.RemoveAll(path) == nil {
		return nil
	}
	err := filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(p, 0o700)
		}
		return err
	})
	return errors.Join(err, os.RemoveAll(path))
}

// usage returns the bytes and the number of regular files below a path, or of the file.
func usage(root string) (size int64, files int) {
	filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if fi, err := d.Info(); err == nil {
			size += fi.Size()
			files++
		}
		return nil
	})
	return size, files
}

// warm reads every file below a directory, so that whoever reads it next finds it in memory.
func warm(dir string) error {
	buf := make([]byte, 64<<10)
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		for {
			if _, err := f.Read(buf); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
}

// forget asks the system to drop what it has in memory of the files below a directory. Where it keeps them all the
// same, as tmpfs does, cold is no different from warm.
func forget(dir string) error {
	syncDisks()
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		return drop(f)
	})
}

// fsType names the file system of a directory, where the system tells.
func fsType(dir string) string {
	text, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "unknown"
	}
	best, name := -1, "unknown"
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < best {
			continue
		}
		if f[1] == "/" || dir == f[1] || strings.HasPrefix(dir, f[1]+"/") {
			best, name = len(f[1]), f[2]
		}
	}
	return name
}
