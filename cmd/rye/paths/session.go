package paths

import (
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/rye-build/rye/cmd/rye/cli"
	"github.com/rye-build/rye/exec/sandbox"
	"github.com/rye-build/rye/exec/secret"
	"github.com/rye-build/rye/exec/session"
)

// Session returns the options of a session that the environment determines.
func Session(a *cli.App) session.Options {
	return session.Options{
		CI: a.Env("CI") != "", Version: cli.ThisVersion().Version, Self: self(), Host: MachineHost(a),
		Keyring: Keyring(a),
		Keys:    Keys(a),
	}
}

// Keys returns the user's keys that can be used without a question.
func Keys(a *cli.App) session.Keys {
	dir := place(cli.UserSpace(a.UserBase())).Below("keys")
	return session.Keys{Dir: dir.Path, PEM: a.Env(cli.EnvKey), Passphrase: a.Env(cli.EnvPassphrase),
		Check: func() error { return CheckKeyPlaces(a) }}
}

// Keyring returns the system's keyring, or nil. It doesn't search for an unnamed bus, because that would start one.
func Keyring(a *cli.App) secret.Keyring {
	if runtime.GOOS != "darwin" && runtime.GOOS != "windows" && a.Env("DBUS_SESSION_BUS_ADDRESS") == "" {
		return nil
	}
	return secret.System{}
}

// Machine returns the sandbox for programs that rye runs.
func Machine(a *cli.App) *sandbox.Machine { return session.Machine(self(), MachineHost(a).Vars) }

// self returns the path of this program, or "" if it is unknown.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
}

// Unattended returns the App for a command that a tool runs in a project; "" means the current one. It can't prompt,
// takes nothing as confirmed, finds bundles only by id, and writes its messages to errs.
func Unattended(a *cli.App, project string, errs io.Writer) *cli.App {
	b := &cli.App{Host: a.Host, Globals: a.Globals, Commands: a.Commands, Clock: a.Clock, ByID: true}
	b.Stdin, b.Hidden, b.Chdir, b.Globals.Yes = strings.NewReader(""), nil, nil, false
	if project != "" {
		b.Globals.Project, b.Getwd = project, func() (string, error) { return project, nil }
	}
	b.Term = cli.NewTerminal(cli.Stream{Writer: io.Discard}, cli.Stream{Writer: errs})
	b.Term.Quiet = true
	return b
}
