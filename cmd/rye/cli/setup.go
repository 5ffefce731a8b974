// The environment of a process, and App: the settings and directories that a command works with.

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/lock/workspace"
	"golang.org/x/term"
)

// A Host is everything outside the process that a command may use: streams, variables, working directory and clock.
type Host struct {
	Stdin io.Reader
	// reads a line of the terminal without echo; nil if stdin is not a terminal
	Hidden         func(context.Context) (string, error)
	Stdout, Stderr Stream
	Environ        []string
	Account        func() (string, error) // the home directory of the user's account; nil: unknown
	Getwd          func() (string, error)
	Chdir          func(string) error // nil: Enter changes only the result of Getwd, not the process
	Now            func() time.Time
}

// ThisHost returns the Host of this process. Nothing else in rye reads the process's environment.
func ThisHost() Host {
	return Host{
		Stdin:   os.Stdin,
		Hidden:  hiddenLine(os.Stdin),
		Stdout:  StreamOf(os.Stdout),
		Stderr:  StreamOf(os.Stderr),
		Environ: os.Environ(),
		Account: accountHome,
		Getwd:   os.Getwd,
		Chdir:   os.Chdir,
		Now:     time.Now,
	}
}

// StreamOf returns the stream of a file, with the width if it is a terminal.
func StreamOf(f *os.File) Stream {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return Stream{Writer: f}
	}
	return Stream{Writer: f, Tty: understandsANSI(f), Width: func() int {
		columns, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return columns
	}}
}

// accountHome returns the home directory that the system has for the user of this process.
func accountHome() (string, error) {
	account, err := user.Current()
	if err != nil {
		return "", err
	}
	return account.HomeDir, nil
}

// Env returns a variable's value; an empty one counts as unset. A client that starts rye as a plugin's server may
// leave out every variable: then the home directory is the account's. An empty HOME is no home directory.
func (h Host) Env(name string) string {
	for _, v := range slices.Backward(h.Environ) {
		if len(v) <= len(name) || v[len(name)] != '=' {
			continue
		}
		if v[:len(name)] == name || runtime.GOOS == "windows" && strings.EqualFold(v[:len(name)], name) {
			return v[len(name)+1:]
		}
	}
	if name == homeVariable && h.Account != nil {
		if home, err := h.Account(); err == nil {
			return home
		}
	}
	return ""
}

// Terminal decides what the standard streams may contain: colour (--no-color, NO_COLOR, CLICOLOR_FORCE, TERM=dumb,
// else on a terminal), characters outside ASCII (by the locale on a terminal; in a file always) and a progress line
// (on a terminal outside CI).
func (h Host) Terminal(noColor bool) *Terminal {
	t := NewTerminal(h.Stdout, h.Stderr)
	plain := noColor || h.Env("NO_COLOR") != ""
	force := h.Env("CLICOLOR_FORCE")
	dumb := h.Env("TERM") == "dumb"
	for _, s := range []*Stream{&t.Stdout, &t.Stderr} {
		s.Color = !plain && (force != "" && force != "0" || s.Tty && !dumb)
	}
	t.Ascii = (t.Stdout.Tty || t.Stderr.Tty) && !h.utf8()
	t.Live = t.Stderr.Tty && !dumb && h.Env("CI") == ""
	return t
}

// utf8 reports whether the locale's character set is UTF-8, which is the default.
func (h Host) utf8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(h.Env(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return true
}

// An App is the surroundings of a command: settings, directories and the terminal. It opens no file of its own.
type App struct {
	Host
	Globals  Globals
	Term     *Terminal
	Commands []Command
	Args     []string         // the command line, for hints that repeat it with a flag
	Clock    func() time.Time // SOURCE_DATE_EPOCH, else the system's
	counters []counter
	ByID     bool               // arguments are ids of bundles, never paths
	Package  string             // a directory that counts as the project, whatever it contains
	answers  *cancellableReader // reads the terminal; nil until the first question
}

type counter struct {
	name  string
	value *atomic.Int64
}

// NewApp returns the App of a command line. It checks SOURCE_DATE_EPOCH and enters the directory of -C.
func NewApp(h Host, t *Terminal, globals Globals, cmds []Command) (*App, error) {
	app := &App{Host: h, Globals: globals, Term: t, Commands: cmds, Clock: h.Now}
	if v := h.Env("SOURCE_DATE_EPOCH"); v != "" {
		sec, err := strconv.ParseInt(v, 10, 64)
		if err != nil || sec < 0 || sec > 253402300799 { // the last second of the year 9999
			return nil, fault.New(fault.Config, "SOURCE_DATE_EPOCH is %q, not a number of seconds since 1970", v).
				Try("unset SOURCE_DATE_EPOCH")
		}
		fixed := time.Unix(sec, 0).UTC()
		app.Clock = func() time.Time { return fixed }
	}
	if globals.Project != "" {
		if err := app.Enter(globals.Project); err != nil {
			return nil, err
		}
	}
	return app, nil
}

// Enter makes dir the working directory, as -C does.
func (a *App) Enter(dir string) error {
	setting := a.Absolute(Setting{Value: dir, Origin: "--project"})
	if setting.Err != nil {
		return setting.Err
	}
	if err := osfile.NeedDir(setting.Value); err != nil {
		return err
	}
	if a.Chdir != nil {
		if err := a.Chdir(setting.Value); err != nil {
			return err
		}
	}
	a.Globals.Project, a.Getwd = dir, func() (string, error) { return setting.Value, nil }
	return nil
}

// ownVariables lists the variables with the prefix RYE_ that rye reads.
func ownVariables() []string {
	return []string{"RYE_STORE", EnvOffline, EnvMirrors, EnvTrust, EnvKey, EnvPassphrase, "RYE_REGISTRY_TOKEN",
		"RYE_ID_TOKEN", "RYE_THREAD"}
}

// RefuseUnknown refuses an unknown RYE_ variable: it may be misspelt, or meant for a newer rye.
func (a *App) RefuseUnknown() error {
	for _, v := range a.Environ {
		name, value, _ := strings.Cut(v, "=")
		if value == "" || !strings.HasPrefix(name, "RYE_") || slices.Contains(ownVariables(), name) {
			continue
		}
		return fault.New(fault.Config, "unknown variable %q in the environment", name).On("variable", name).
			Near(name, ownVariables()).Try(fault.Command("unset", name))
	}
	return nil
}

// EnvOffline forbids the network as --offline does.
const EnvOffline = "RYE_OFFLINE"

// Offline returns whether the network is forbidden, and by what. Every value of the variable except 0 and false
// forbids it, so a typing mistake is safe.
func (a *App) Offline() Setting {
	switch v := a.Env(EnvOffline); {
	case a.Globals.Offline:
		return Setting{Value: "true", Origin: "--offline"}
	case v != "" && v != "0" && !strings.EqualFold(v, "false"):
		return Setting{Value: "true", Origin: EnvOffline}
	case v != "":
		return Setting{Value: "false", Origin: EnvOffline}
	}
	return Setting{Value: "false", Origin: "default"}
}

// IsOffline reports whether the network is forbidden.
func (a *App) IsOffline() bool { return a.Offline().Value == "true" }

// Count returns a counter that --verbose prints at the end.
func (a *App) Count(name string) *atomic.Int64 {
	c := counter{name, new(atomic.Int64)}
	a.counters = append(a.counters, c)
	return c.value
}

func (a *App) printCounters(elapsed time.Duration) {
	for _, c := range a.counters {
		a.Term.Detail("%s: %d", c.name, c.value.Load())
	}
	a.Term.Detail("time: %s", elapsed.Round(10*time.Microsecond))
}

// A Setting is one effective value and its origin.
type Setting struct {
	Value  string
	Origin string // "--store", "RYE_STORE", "default", …
	Err    error  // why there is no value
}

// Absolute makes the value absolute, from the working directory.
func (a *App) Absolute(s Setting) Setting {
	if filepath.IsAbs(s.Value) {
		s.Value = filepath.Clean(s.Value)
		return s
	}
	wd, err := a.Getwd()
	if err != nil {
		return Setting{Origin: s.Origin, Err: fmt.Errorf("the working directory: %w", err)}
	}
	s.Value = filepath.Join(wd, s.Value)
	return s
}

// FromEnv returns the directory that a variable names; "~/" is the home directory. It refuses a relative path,
// because that would depend on the working directory, even within a stranger's project.
func (a *App) FromEnv(name, value string) Setting {
	setting := Setting{Value: value, Origin: name}
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		home := a.Home()
		if home.Err != nil {
			return home
		}
		setting.Value = filepath.Join(home.Value, rest)
	}
	if !filepath.IsAbs(setting.Value) {
		return Setting{Origin: name, Err: fault.New(fault.Config, "%s is %q, not an absolute path", name, value).
			Try("export " + name + "=\"$PWD\"/" + fault.Quote(value))}
	}
	setting.Value = filepath.Clean(setting.Value)
	return setting
}

// Home returns the user's home directory, from HOME or on Windows USERPROFILE.
func (a *App) Home() Setting {
	v := a.Env(homeVariable)
	if !filepath.IsAbs(v) {
		return Setting{Origin: homeVariable, Err: fault.New(fault.Config,
			"%s is %q, not the absolute path of a home directory", homeVariable, v)}
	}
	return Setting{Value: filepath.Clean(v), Origin: homeVariable}
}

// UserBase returns the directory whose .ai is the user space: USER_SPACE or the home directory.
func (a *App) UserBase() Setting {
	if v := a.Env("USER_SPACE"); v != "" {
		return a.FromEnv("USER_SPACE", v)
	}
	return a.Home()
}

// A Place is a kind of directory that operating systems keep separate.
type Place int

const (
	DataPlace  Place = iota // can be fetched again
	StatePlace              // can't be recovered
	CachePlace              // is rebuilt automatically
)

// Dir returns rye's own directory of a kind.
func (a *App) Dir(p Place) Setting {
	base, origin, err := systemDir(p, a.Env)
	if err != nil {
		return Setting{Origin: origin, Err: fault.New(fault.Config, "%s", err)}
	}
	return Setting{Value: filepath.Join(base, "rye"), Origin: origin}
}

// Store returns the directory of the object store: --store, RYE_STORE or the default.
func (a *App) Store() Setting {
	if a.Globals.Store != "" {
		return a.Absolute(Setting{Value: a.Globals.Store, Origin: "--store"})
	}
	if v := a.Env("RYE_STORE"); v != "" {
		return a.FromEnv("RYE_STORE", v)
	}
	return a.DefaultStore()
}

// DefaultStore returns the directory of the store without --store and RYE_STORE.
func (a *App) DefaultStore() Setting {
	s := a.Dir(DataPlace)
	if s.Err == nil {
		s.Value = filepath.Join(s.Value, "store")
	}
	return s
}

// UserSpace returns the .ai of a user base.
func UserSpace(base Setting) Setting {
	if base.Err == nil {
		base.Value = filepath.Join(base.Value, workspace.MarkerDir)
	}
	return base
}

// StdLabel is the label of the space of the library.
const StdLabel = "system:rye/std"
