// Questions to the person at the terminal: yes or no, a line, a passphrase.

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"golang.org/x/term"
)

// Variables for trust, keys and registries.
const (
	EnvTrust      = "RYE_TRUST"
	EnvKey        = "RYE_KEY"
	EnvPassphrase = "RYE_KEY_PASSPHRASE"
	EnvMirrors    = "RYE_MIRRORS" // of registries
)

// hiddenLine returns a function that reads a line from f without echo, or nil if f is not a terminal.
func hiddenLine(f *os.File) func(context.Context) (string, error) {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return func(ctx context.Context) (string, error) {
		// ReadPassword turns the echo off. After an interrupt the terminal must echo again.
		before, err := term.GetState(fd)
		if err != nil {
			return "", err
		}
		type line struct {
			text []byte
			err  error
		}
		read := make(chan line, 1)
		go func() {
			text, err := term.ReadPassword(fd)
			read <- line{text, err}
		}()
		select {
		case <-ctx.Done():
			term.Restore(fd, before)
			return "", ctx.Err()
		case l := <-read:
			return string(l.text), l.err
		}
	}
}

// CanAsk reports whether a person can see a question and answer it: standard input and error are a terminal.
func (a *App) CanAsk() bool { return a.Hidden != nil && a.Term.Stderr.Tty }

// Confirm asks a yes-or-no question, which --yes answers. It returns an error if the answer is no or can't be asked.
func (a *App) Confirm(ctx context.Context, question string) error {
	yes, err := a.Agrees(ctx, question)
	if err == nil && !yes {
		err = fault.New(fault.Approval, "cancelled: the answer was no")
	}
	return err
}

// Agrees asks a yes-or-no question, which --yes answers. It returns an error if the question can't be asked.
func (a *App) Agrees(ctx context.Context, question string) (bool, error) {
	if a.Globals.Yes {
		return true, nil
	}
	line, err := a.Ask(ctx, question, "[y/N]")
	return line == "y" || line == "yes", err
}

// Ask asks a question on the terminal and returns the answer in lower case. Without a terminal it fails.
func (a *App) Ask(ctx context.Context, question, answers string) (string, error) {
	if !a.CanAsk() {
		return "", fault.New(fault.Approval, "can't ask without a terminal: %s",
			question).Try(program.Name + " --yes " + JoinArgs(a.Args))
	}
	a.Term.Prompt("%s %s ", question, answers)
	return a.line(ctx)
}

// With returns the command line with more flags, at its end or before "--". A flag --NAME=VALUE replaces the one that
// the command line has. Hints use it.
func (a *App) With(flags ...string) string {
	end := slices.Index(append(slices.Clip(a.Args), "--"), "--")
	before := slices.Clone(a.Args[:end])
	for _, flag := range flags {
		name, _, assigns := strings.Cut(flag, "=")
		if i := slices.Index(before, name); assigns && i >= 0 {
			before = slices.Delete(before, i, min(i+2, len(before)))
		}
		before = slices.DeleteFunc(before, func(arg string) bool {
			return assigns && strings.HasPrefix(arg, name+"=")
		})
	}
	return program.Name + " " + JoinArgs(slices.Concat(before, flags, a.Args[end:]))
}

// Online returns the command line without what makes it work offline.
func (a *App) Online() string {
	args := slices.DeleteFunc(slices.Clone(a.Args), func(arg string) bool { return arg == "--offline" })
	if len(args) == len(a.Args) {
		return EnvOffline + "=0 " + program.Name + " " + JoinArgs(args)
	}
	return program.Name + " " + JoinArgs(args)
}

// line reads one line of the terminal, trimmed and in lower case. It reads byte by byte, because further lines that
// are already typed answer the next question.
func (a *App) line(ctx context.Context) (string, error) {
	if a.answers == nil {
		a.answers = Cancellable(ctx, a.Stdin).(*cancellableReader)
	}
	a.answers.ctx = ctx
	var text []byte
	for b := make([]byte, 1); len(text) < 1000; {
		n, err := a.answers.Read(b)
		if n > 0 && b[0] == '\n' || err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		text = append(text, b[:n]...)
	}
	return strings.ToLower(strings.TrimSpace(string(text))), nil
}

// Passphrase returns a function that reads the passphrase of a key from RYE_KEY_PASSPHRASE or the terminal. what
// names the key in the question.
func (a *App) Passphrase(ctx context.Context, what string) func() (string, error) {
	return func() (string, error) {
		if word := a.Env(EnvPassphrase); word != "" {
			return word, nil
		}
		if !a.CanAsk() {
			return "", fault.New(fault.Approval, "%s is protected by a passphrase: can't ask without a terminal",
				what).Try("export " + EnvPassphrase + "=…")
		}
		return a.secret(ctx, "passphrase of "+what)
	}
}

// NewPassphrase returns a new passphrase: that of RYE_KEY_PASSPHRASE, or one typed twice. On the terminal it
// refuses an empty one.
func (a *App) NewPassphrase(ctx context.Context) (string, error) {
	if word := a.Env(EnvPassphrase); word != "" {
		return word, nil
	}
	if !a.CanAsk() {
		return "", fault.New(fault.Approval, "can't ask for a passphrase without a terminal").
			Try("export " + EnvPassphrase + "=…")
	}
	one, err := a.secret(ctx, "new passphrase")
	if err != nil {
		return "", err
	}
	two, err := a.secret(ctx, "the same again")
	switch {
	case err != nil:
		return "", err
	case one == "":
		return "", fault.New(fault.Validation, "an empty passphrase protects nothing")
	case one != two:
		return "", fault.New(fault.Validation, "the passphrases differ")
	}
	return one, nil
}

// secret asks for a line without echo.
func (a *App) secret(ctx context.Context, what string) (string, error) {
	a.Term.Prompt("%s: ", what)
	word, err := a.Hidden(ctx)
	a.Term.Prompt("%s", Styled("\n"))
	if err != nil {
		return "", fmt.Errorf("reading the passphrase: %w", err)
	}
	return word, nil
}
