package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/exec/audit/record"
	"github.com/rye-build/rye/manifest/jcs"
)

// The files.
const (
	fileName     = "secrets.age"
	identityName = "identity"
	lockName     = "lock"
)

const (
	format = "rye-secrets/1"
	// maxFile allows MaxSecrets short values, and many long ones.
	maxFile = 16 << 20
)

func damaged(path, format string, args ...any) error {
	return fault.New(fault.Parsing, "can't read %q: %s", path, fmt.Sprintf(format, args...)).On("path", path).
		Because("the secrets in it are lost unless there is a copy; once it is moved away, secrets can be set again").
		Try(fault.Command("mv", path, path+".bad"))
}

// A document is the content of the file.
type document struct {
	Format  string  `json:"format"`
	Secrets []entry `json:"secrets"`
}

type entry struct {
	Secret
	Value string `json:"value,omitempty"` // "" if the keyring has it
}

func newDocument() *document { return &document{format, []entry{}} }

func (d *document) find(name string) *entry {
	for i := range d.Secrets {
		if d.Secrets[i].Name == name {
			return &d.Secrets[i]
		}
	}
	return nil
}

// append encodes the document.
func (d *document) append() ([]byte, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return jcs.Canonical(nil, b)
}

// parse accepts exactly the bytes that append writes.
func parse(data []byte) (*document, error) {
	document := new(document)
	if err := json.Unmarshal(data, document); err != nil {
		return nil, errors.New("it is not JSON of secrets") // the error could repeat a value
	}
	if document.Format != format {
		return nil, fmt.Errorf("unsupported format %.40q: expected %s", document.Format, format)
	}
	for i, entry := range document.Secrets {
		_, err := Variable(entry.Name)
		if err == nil {
			err = record.CheckText("from", entry.From)
		}
		if err == nil && !entry.Keyring {
			err = Check(entry.Name, entry.Value)
		}
		if err == nil && i > 0 && document.Secrets[i-1].Name >= entry.Name {
			err = errors.New("the names are not sorted")
		}
		if err != nil {
			return nil, err
		}
		if entry.Keyring && entry.Value != "" {
			return nil, errors.New("it has a value that is in the keyring")
		}
	}
	if again, err := document.append(); err != nil || !bytes.Equal(again, data) || len(document.Secrets) > MaxSecrets {
		return nil, errors.New("it is not in canonical form")
	}
	return document, nil
}

// read returns the document; a missing file is an empty one.
func (s *Store) read() (*document, error) {
	if err := osfile.CheckPrivateDir(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return newDocument(), nil
	} else if err != nil {
		return nil, err
	}
	path := filepath.Join(s.Dir, fileName)
	locked, err := readOwn(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newDocument(), nil
	}
	if err != nil {
		return nil, err
	}
	identity, err := s.identity()
	if errors.Is(err, fs.ErrNotExist) {
		err = damaged(path, "its key %q is missing", filepath.Join(s.Dir, identityName))
	}
	if err != nil {
		return nil, err
	}
	plain, err := age.Decrypt(bytes.NewReader(locked), identity)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(plain)
	}
	var d *document
	if err == nil {
		d, err = parse(b)
	}
	if err != nil {
		return nil, damaged(path, "%v", err)
	}
	return d, nil
}

// identity reads the key of the file.
func (s *Store) identity() (*age.X25519Identity, error) {
	path := filepath.Join(s.Dir, identityName)
	b, err := readOwn(path)
	if err != nil {
		return nil, err
	}
	i, err := age.ParseX25519Identity(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, damaged(path, "it is not an age identity")
	}
	return i, nil
}

// change edits the document and writes it, under the lock.
func (s *Store) change(ctx context.Context, edit func(*document) error) error {
	if err := makeDir(s.Dir); err != nil {
		return err
	}
	lock, err := osfile.OpenLocked(ctx, filepath.Join(s.Dir, lockName), osfile.Exclusive, s.Wait)
	if err != nil {
		return err
	}
	defer lock.Close()
	// Under the lock no other process writes, so even young files are leftovers.
	osfile.Sweep(s.Dir, time.Now().Add(2*osfile.UnfinishedAge))
	d, err := s.read()
	if err != nil {
		return err
	}
	if err := edit(d); err != nil {
		return err
	}
	return s.write(d)
}

// makeDir creates the directory for this user alone, and syncs its parent.
func makeDir(dir string) error {
	if err := osfile.CheckPrivateDir(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := osfile.SyncDirectory(filepath.Dir(dir)); err != nil {
		return err
	}
	return osfile.CheckPrivateDir(dir)
}

// put writes a file of the store.
func (s *Store) put(name string, b []byte) error {
	return osfile.Hook(nil).WriteFile(filepath.Join(s.Dir, name), 0o600, false, osfile.BytesOf(b))
}

// write replaces the document. It creates the key first if necessary.
func (s *Store) write(d *document) error {
	b, err := d.append()
	if err != nil {
		return err
	}
	locked, err := s.encrypt(b)
	if err == nil && len(locked) > maxFile {
		err = fmt.Errorf("the secrets have more than %d MiB together", maxFile>>20)
	}
	if err != nil {
		return err
	}
	return s.put(fileName, locked)
}

// encrypt encrypts with the directory's key, which it creates on first use. The caller holds the lock.
func (s *Store) encrypt(data []byte) ([]byte, error) {
	identity, err := s.identity()
	if errors.Is(err, fs.ErrNotExist) {
		if identity, err = age.GenerateX25519Identity(); err == nil {
			err = s.put(identityName, []byte(identity.String()+"\n"))
		}
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, identity.Recipient())
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// Seal encrypts the content of another file of the state directory as secrets are.
func (s *Store) Seal(ctx context.Context, b []byte) ([]byte, error) {
	if err := makeDir(s.Dir); err != nil {
		return nil, err
	}
	lock, err := osfile.OpenLocked(ctx, filepath.Join(s.Dir, lockName), osfile.Exclusive, s.Wait)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return s.encrypt(b)
}

// Unseal decrypts the output of Seal.
func (s *Store) Unseal(sealed []byte) ([]byte, error) {
	identity, err := s.identity()
	if err != nil {
		return nil, err
	}
	plain, err := age.Decrypt(bytes.NewReader(sealed), identity)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(plain)
}

// readOwn reads a file that only the user can read.
func readOwn(path string) ([]byte, error) {
	f, err := osfile.OpenPrivate(path, true)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = damaged(path, "it has more than %d MiB", maxFile>>20)
	}
	return b, err
}
