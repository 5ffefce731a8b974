package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/near"
	lockfile "github.com/rye-build/rye/lock/file"
)

// A host is everything outside the process that setup reads.
type host struct {
	stdin          io.Reader
	hidden         func(context.Context) (string, error) // reads a line of a terminal without showing it; nil: stdin is none
	stdout, stderr stream
	environ        []string
	getwd          func() (string, error)
	now            func() time.Time
}

// thisHost is the only reader of the process's environment.
func thisHost() host {
	return host{
		stdin:   os.Stdin,
		hidden:  hiddenLine(os.Stdin),
		stdout:  streamOf(os.Stdout),
		stderr:  streamOf(os.Stderr),
		environ: os.Environ(),
		getwd:   os.Getwd,
		now:     time.Now,
	}
}

func streamOf(f *os.File) stream {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return stream{Writer: f}
	}
	return stream{Writer: f, tty: understandsANSI(f), width: func() int {
		columns, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return columns
	}}
}

// env returns a variable's value; an empty one counts as unset.
func (h host) env(name string) string {
	for _, v := range slices.Backward(h.environ) {
		if len(v) <= len(name) || v[len(name)] != '=' {
			continue
		}
		if v[:len(name)] == name || runtime.GOOS == "windows" && strings.EqualFold(v[:len(name)], name) {
			return v[len(name)+1:]
		}
	}
	return ""
}

// terminal decides what the standard streams may be given: colour (--no-color, NO_COLOR, CLICOLOR_FORCE,
// TERM=dumb, else on a terminal), characters beyond ASCII (the locale's character set, asked only where
// there is a terminal: what goes into a file is the same everywhere) and a progress line (not in CI).
func (h host) terminal(noColor bool) *terminal {
	t := newTerminal(h.stdout, h.stderr)
	plain := noColor || h.env("NO_COLOR") != ""
	force := h.env("CLICOLOR_FORCE")
	dumb := h.env("TERM") == "dumb"
	for _, s := range []*stream{&t.stdout, &t.stderr} {
		s.color = !plain && (force != "" && force != "0" || s.tty && !dumb)
	}
	t.ascii = (t.stdout.tty || t.stderr.tty) && !h.utf8()
	t.live = t.stderr.tty && !dumb && h.env("CI") == ""
	return t
}

// utf8 reports whether the locale's character set is UTF-8; without a locale it is taken to be.
func (h host) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(h.env(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// An app is what a command works with: where things are and whom to tell. Nothing in it is opened before a
// command asks for it.
type app struct {
	host
	globals  globals
	term     *terminal
	commands []command
	args     []string         // the command line, for the line to paste when something is missing in it
	clock    func() time.Time // SOURCE_DATE_EPOCH, else the system's
	counters []counter

	// Of the lock that is being made.
	coming    []lockfile.Bundle // instead of those of the lock that there is
	byID      bool              // bundles are meant by their ids, never by paths
	allowUser bool              // the user's space counts though there is a rye.yaml
	answers   io.Reader         // what is typed on the terminal; nil until something is asked
}

type counter struct {
	name  string
	value *atomic.Int64
}

// newApp checks what was given before anything is done with it.
func newApp(h host, t *terminal, g globals, cmds []command) (*app, error) {
	a := &app{host: h, globals: g, term: t, commands: cmds, clock: h.now}
	if v := h.env("SOURCE_DATE_EPOCH"); v != "" {
		sec, err := strconv.ParseInt(v, 10, 64)
		if err != nil || sec < 0 || sec > 253402300799 { // the last second of the year 9999
			return nil, &fault.Error{Code: fault.Config, Text: fmt.Sprintf("SOURCE_DATE_EPOCH is %q, not a number of seconds since 1970", v),
				Hint: []string{"unset SOURCE_DATE_EPOCH"}}
		}
		fixed := time.Unix(sec, 0).UTC()
		a.clock = func() time.Time { return fixed }
	}
	return a, nil
}

// ownVariables are the variables of our own prefix that have an effect.
func ownVariables() []string {
	return []string{"RYE_STORE", envOffline, envTrust, envKey, envPassphrase}
}

// refuseUnknown refuses a RYE_ variable that nothing reads: one that is misspelt, or that a newer rye
// understands, would otherwise promise what doesn't happen.
func (a *app) refuseUnknown() error {
	for _, v := range a.environ {
		name, value, _ := strings.Cut(v, "=")
		if value == "" || !strings.HasPrefix(name, "RYE_") || slices.Contains(ownVariables(), name) {
			continue
		}
		f := &fault.Error{Code: fault.Config, Text: fmt.Sprintf("unknown variable %q in the environment", name),
			Hint: []string{"unset " + fault.Quote(name)}, Details: map[string]any{"variable": name}}
		if meant := near.Names(name, ownVariables()); len(meant) > 0 {
			f.Why = []string{"did you mean " + meant[0] + "?"}
		}
		return f
	}
	return nil
}

// envOffline forbids the network as --offline does.
const envOffline = "RYE_OFFLINE"

// offline says whether no network is to be asked. Any value of the variable but 0 and false says so: a promise that is
// misspelt is kept.
func (a *app) offline() setting {
	switch v := a.env(envOffline); {
	case a.globals.Offline:
		return setting{value: "true", origin: "--offline"}
	case v != "" && v != "0" && !strings.EqualFold(v, "false"):
		return setting{value: "true", origin: envOffline}
	case v != "":
		return setting{value: "false", origin: envOffline}
	}
	return setting{value: "false", origin: "default"}
}

// isOffline is what offline comes to.
func (a *app) isOffline() bool { return a.offline().value == "true" }

// count returns a counter that --verbose prints at the end.
func (a *app) count(name string) *atomic.Int64 {
	c := counter{name, new(atomic.Int64)}
	a.counters = append(a.counters, c)
	return c.value
}

func (a *app) printCounters(elapsed time.Duration) {
	for _, c := range a.counters {
		a.term.detail("%s: %d", c.name, c.value.Load())
	}
	a.term.detail("time: %s", elapsed.Round(10*time.Microsecond))
}

// A setting is one effective value and where it comes from.
type setting struct {
	value  string
	origin string // "--store", "RYE_STORE", "default", …
	err    error  // why there is no value
}

// absolute makes the value absolute, by the working directory.
func (a *app) absolute(s setting) setting {
	if filepath.IsAbs(s.value) {
		s.value = filepath.Clean(s.value)
		return s
	}
	wd, err := a.getwd()
	if err != nil {
		return setting{origin: s.origin, err: fmt.Errorf("the working directory: %w", err)}
	}
	s.value = filepath.Join(wd, s.value)
	return s
}

// fromEnv is the directory that a variable names; "~/" is the home directory. A relative one would be another in every
// working directory, in a stranger's project too.
func (a *app) fromEnv(name, value string) setting {
	s := setting{value: value, origin: name}
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		home := a.home()
		if home.err != nil {
			return home
		}
		s.value = filepath.Join(home.value, rest)
	}
	if !filepath.IsAbs(s.value) {
		return setting{origin: name, err: &fault.Error{Code: fault.Config, Text: fmt.Sprintf("%s is %q, not an absolute path", name, value),
			Hint: []string{"export " + name + "=\"$PWD\"/" + fault.Quote(value)}}}
	}
	s.value = filepath.Clean(s.value)
	return s
}

// home is the user's home directory.
func (a *app) home() setting {
	name := "HOME"
	if runtime.GOOS == "windows" {
		name = "USERPROFILE"
	}
	v := a.env(name)
	if !filepath.IsAbs(v) {
		return setting{origin: name, err: &fault.Error{Code: fault.Config,
			Text: fmt.Sprintf("%s is %q, not the absolute path of a home directory", name, v)}}
	}
	return setting{value: filepath.Clean(v), origin: name}
}

// userBase is the directory whose .ai is the user space.
func (a *app) userBase() setting {
	if v := a.env("USER_SPACE"); v != "" {
		return a.fromEnv("USER_SPACE", v)
	}
	return a.home()
}

// The kinds of directory that a system keeps apart.
type place int

const (
	dataPlace  place = iota // losing it costs only what can be fetched again
	statePlace              // can't be made again
	cachePlace              // made again by itself
)

// dir is rye's directory of a kind.
func (a *app) dir(p place) setting {
	base, origin, err := systemDir(p, a.env)
	if err != nil {
		return setting{origin: origin, err: &fault.Error{Code: fault.Config, Text: err.Error()}}
	}
	return setting{value: filepath.Join(base, "rye"), origin: origin}
}

// store is the directory of the object store.
func (a *app) store() setting {
	if a.globals.Store != "" {
		return a.absolute(setting{value: a.globals.Store, origin: "--store"})
	}
	if v := a.env("RYE_STORE"); v != "" {
		return a.fromEnv("RYE_STORE", v)
	}
	return a.defaultStore()
}

// defaultStore is the store where nothing names another.
func (a *app) defaultStore() setting {
	s := a.dir(dataPlace)
	if s.err == nil {
		s.value = filepath.Join(s.value, "store")
	}
	return s
}

// makeDir makes a setting's directory, for this user alone, unless it is there, and returns its path. name
// is what the error calls it.
func (a *app) makeDir(name string, s setting) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	if err := os.MkdirAll(s.value, 0o700); err != nil {
		f := classify(err)
		f.Text = fmt.Sprintf("the %s directory %q (%s) can't be made", name, s.value, s.origin)
		f.Exit = fault.ExitNo
		return "", f
	}
	return s.value, nil
}

// writable makes a setting's directory and writes to it, to find what only writing finds.
func (a *app) writable(name string, s setting) error {
	dir, err := a.makeDir(name, s)
	if err != nil {
		return err
	}
	return probe(name, dir)
}

// probe writes an empty file in a directory and removes it.
func probe(name, dir string) error {
	file, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		f := classify(err)
		f.Text = fmt.Sprintf("the %s directory %q can't be written to", name, dir)
		return f
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}

// isDir reports whether a directory is at path, and says so when something else is.
func isDir(path string) (bool, error) {
	switch fi, err := os.Stat(path); {
	case os.IsNotExist(err):
		return false, nil
	case err != nil:
		return false, err
	case !fi.IsDir():
		return false, &fs.PathError{Op: "open", Path: path, Err: notDirectory}
	}
	return true, nil
}
