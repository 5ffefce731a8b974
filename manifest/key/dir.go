package key

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/cas/portable"
)

// DefaultName is the name of the key that signs when none is named and SetDefault was never called.
const DefaultName = "default"

const (
	privateSuffix = ".private.pem"
	publicSuffix  = ".public.pem"
	defaultFile   = "default"
	maxName       = 64
)

// A Dir is a directory of private keys. Any number of processes may use one at once.
type Dir struct {
	path string
	work int         // scrypt's work factor; 0 means writeWork; tests set it
	hook osfile.Hook // nil outside tests
}

// OpenDir returns the directory of keys at path. It may be missing: Add creates it.
func OpenDir(path string) Dir { return Dir{path: path} }

// An Entry is a key of a Dir, as far as it is readable without its passphrase.
type Entry struct {
	Name   string
	Public Public // zero if Err, or if the key is locked and its public half is missing
	Locked bool
	Err    error // why the key can't be used
}

// refused adds the code and hints to an error about key files that other users can read or control.
func refused(err error) error {
	e, ok := errors.AsType[*osfile.UnsafeError](err)
	if !ok {
		return err
	}
	f := fault.New(fault.Denied, "%v", e).On("reason", "key-"+e.By).On("path", e.Path).
		Because("another user who can read or write a private key can sign with it")
	path := fault.Quote(e.Path)
	if info, err := os.Stat(e.Path); e.By != "mode" && err == nil && !info.IsDir() {
		// rye key import copies the key into a file of this user.
		return f.Try("ls -ld "+path, "rye key import "+path+" "+ImportName(e.Path))
	}
	return f.Try("chmod go= "+path, "ls -ld "+path)
}

// checkDir returns an error for a directory from which others could read keys, or into which they could put keys.
func checkDir(path string) error { return refused(osfile.CheckPrivateDir(path)) }

// Slug turns any text into a key's name, or "" if no character of it is allowed in a name.
func Slug(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(s)) {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-' && b.Len() > 0, r == '_' && b.Len() > 0:
			b.WriteRune(r)
		case r == ' ' && b.Len() > 0:
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String()[:min(b.Len(), maxName)], "-_")
}

// Next suggests a name when one is taken: name-2 for name, name-3 for name-2.
func Next(name string) string {
	i := strings.LastIndexByte(name, '-')
	if n, err := strconv.Atoi(name[i+1:]); err == nil && i > 0 && n > 1 {
		return fmt.Sprintf("%s-%d", name[:i], n+1)
	}
	return name + "-2"
}

// ImportName suggests a name for the key in a file.
func ImportName(path string) string {
	name, _, _ := strings.Cut(filepath.Base(path), ".")
	if name = Slug(name); name == "private_key" || CheckName(name) != nil {
		return "imported"
	}
	return name
}

// CheckName returns an error for an invalid key name.
func CheckName(name string) error {
	if !portable.Spelled(name, portable.Lower+portable.Digits, "-_", maxName) ||
		portable.Check(name+privateSuffix) != nil {
		return fault.New(fault.Validation,
			"invalid key name %q: expected lower-case letters and digits, then also - and _", name).On("reason",
			"no-key")
	}
	return nil
}

// check returns an error for an invalid name, and for a missing or unsafe directory.
func (d Dir) check(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	return checkDir(d.path)
}

// files returns the names of a key's two files.
func files(name string) (private, public string) {
	if name == DefaultName {
		return "private_key.pem", "public_key.pem"
	}
	return name + privateSuffix, name + publicSuffix
}

// nameOf is the inverse of files.
func nameOf(private string) (string, bool) {
	if private == "private_key.pem" {
		return DefaultName, true
	}
	name, ok := strings.CutSuffix(private, privateSuffix)
	return name, ok && name != DefaultName && CheckName(name) == nil
}

// List returns the keys, sorted by name. A missing directory has no keys.
func (d Dir) List() ([]Entry, error) {
	if err := checkDir(d.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return nil, err
	}
	found, err := os.ReadDir(d.path)
	if err != nil {
		return nil, err
	}
	var list []Entry
	for _, f := range found {
		name, ok := nameOf(f.Name())
		if !ok {
			continue
		}
		e := Entry{Name: name}
		e.Public, e.Locked, e.Err = d.look(name)
		if !errors.Is(e.Err, fs.ErrNotExist) { // otherwise another process has removed it meanwhile
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Public returns the public half of a key. It returns fs.ErrNotExist for a missing key, and ErrLocked if the public
// half is missing and the private half has a passphrase.
func (d Dir) Public(name string) (Public, error) {
	if err := d.check(name); err != nil {
		return Public{}, err
	}
	pub, locked, err := d.look(name)
	if err == nil && locked && pub.IsZero() {
		err = fmt.Errorf("key %q: %w", name, ErrLocked)
	}
	return pub, err
}

// look reads the parts of a key that need no passphrase.
func (d Dir) look(name string) (pub Public, locked bool, err error) {
	b, err := d.readPrivate(name)
	if err != nil {
		return Public{}, false, err
	}
	if locked = IsLocked(b); locked {
		pub, _, err = d.readPublic(name)
		return pub, locked, err
	}
	p, err := d.open(name, b, nil)
	return p.Public(), false, err
}

// Private opens a key, or returns fs.ErrNotExist. For a locked key it calls passphrase once; nil means that no person
// can be asked.
func (d Dir) Private(name string, passphrase func() (string, error)) (Private, error) {
	if err := d.check(name); err != nil {
		return Private{}, err
	}
	b, err := d.readPrivate(name)
	if err != nil {
		return Private{}, err
	}
	return d.open(name, b, passphrase)
}

func (d Dir) open(name string, b []byte, passphrase func() (string, error)) (Private, error) {
	signer, err := ParsePrivate(b, passphrase)
	if err != nil {
		return Private{}, fmt.Errorf("key %q: %w", name, err)
	}
	pub, missing, err := d.readPublic(name)
	if err != nil {
		return Private{}, err
	}
	if missing && IsLocked(b) {
		// Only List needs the public half, so an unwritable directory is no error.
		d.writePublic(name, signer.Public())
	}
	if !missing && pub != signer.Public() {
		return Private{}, fmt.Errorf("key %q: %w", name,
			invalid("its public half is %s, but its private half belongs to %s", pub, signer.Public()))
	}
	return signer, nil
}

func (d Dir) readPrivate(name string) ([]byte, error) {
	file, _ := files(name)
	return d.read(file, true)
}

// readPublic reads the public half. A missing file is no error.
func (d Dir) readPublic(name string) (pub Public, missing bool, err error) {
	_, file := files(name)
	b, err := d.read(file, false)
	if errors.Is(err, fs.ErrNotExist) {
		return Public{}, true, nil
	}
	if err == nil {
		if pub, err = ParsePublicPEM(b); err != nil {
			err = fmt.Errorf("key %q: %w", name, err)
		}
	}
	return pub, false, err
}

func (d Dir) read(file string, private bool) ([]byte, error) {
	f, err := osfile.OpenPrivate(filepath.Join(d.path, file), private)
	if err != nil {
		return nil, refused(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(b) > maxPEM {
		err = refused(&osfile.UnsafeError{Path: f.Name(), By: "kind", Text: "is too large for a key"})
	}
	return b, err
}

// Add stores a key under a name, with a passphrase unless that is empty. An existing key is fs.ErrExist. The key is
// durable when Add returns without an error.
func (d Dir) Add(name string, signer Private, passphrase string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	data := signer.PEM()
	if passphrase != "" {
		var err error
		if data, err = signer.lock(passphrase, cmp.Or(d.work, writeWork)); err != nil {
			return err
		}
	}
	if err := d.hook.Do("mkdir", d.path); err != nil {
		return err
	}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	if err := checkDir(d.path); err != nil {
		return err
	}
	private, _ := files(name)
	if err := d.write(private, data, 0o600, false); err != nil {
		return err
	}
	return d.writePublic(name, signer.Public())
}

// Remove deletes a key for good. A missing key is fs.ErrNotExist.
func (d Dir) Remove(name string) error {
	if err := d.check(name); err != nil {
		return err
	}
	private, public := files(name)
	// The public half goes first: a private half alone is still a key, and a second Remove finds it.
	for _, file := range []string{public, private} {
		path := filepath.Join(d.path, file)
		if err := d.hook.Do("remove", path); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil && (file == private || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	return d.hook.SyncDirectory(d.path)
}

// Default returns the name of the key that signs when none is named. That key may be missing.
func (d Dir) Default() (string, error) {
	if err := checkDir(d.path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return DefaultName, nil
		}
		return "", err
	}
	b, err := d.read(defaultFile, false)
	if errors.Is(err, fs.ErrNotExist) {
		return DefaultName, nil
	}
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(string(b), "\n")
	if err := CheckName(name); err != nil {
		return "", fmt.Errorf("%q: %w", filepath.Join(d.path, defaultFile), err)
	}
	return name, nil
}

// SetDefault sets the key that signs when none is named. A missing key is fs.ErrNotExist.
func (d Dir) SetDefault(name string) error {
	if err := d.check(name); err != nil {
		return err
	}
	if _, err := d.readPrivate(name); err != nil {
		return err
	}
	return d.write(defaultFile, []byte(name+"\n"), 0o600, true)
}

func (d Dir) writePublic(name string, pub Public) error {
	_, file := files(name)
	return d.write(file, pub.PEM(), 0o644, true)
}

// write creates or replaces a file, and removes leftovers of dead processes.
func (d Dir) write(file string, b []byte, mode fs.FileMode, replace bool) error {
	path := filepath.Join(d.path, file)
	if err := d.hook.WriteFile(path, mode, !replace, osfile.BytesOf(b)); err != nil {
		return err
	}
	if now, err := os.Lstat(path); err == nil {
		osfile.Sweep(d.path, now.ModTime()) // by the clock of the file system
	}
	return nil
}
