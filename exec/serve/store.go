package serve

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
	"sync"
	"time"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/osfile"
	"github.com/rye-build/rye/manifest/jcs"
)

// The files and their format.
const (
	fileName = "tokens.json"
	lockName = "lock"
	format   = "rye-tokens/1"
	maxFile  = 1 << 20
)

// A Tokens is the tokens of a user. It is safe for concurrent use, also by many processes.
type Tokens struct {
	Dir string // private
	Now func() time.Time

	mu   sync.Mutex
	all  []Token
	seen fs.FileInfo // of the file that all was read from
}

// A document is the content of the file.
type document struct {
	Format string  `json:"format"`
	Tokens []Token `json:"tokens"` // sorted by name
}

// OpenTokens returns the store in a user's state directory.
func OpenTokens(state string, now func() time.Time) *Tokens {
	return &Tokens{Dir: filepath.Join(state, "serve"), Now: now}
}

// Add keeps a token under its name, and returns its secret, which is nowhere else.
func (s *Tokens) Add(ctx context.Context, token Token) (secret string, err error) {
	secret = generate()
	token.Digest, token.Created = digest(secret), s.Now().UTC().Truncate(time.Second)
	token.Expires = token.Expires.UTC().Truncate(time.Second)
	if err := token.check(); err != nil {
		return "", err
	}
	return secret, s.change(ctx, func(all []Token) ([]Token, error) {
		if at(all, token.Name) >= 0 {
			return nil, fault.New(fault.Conflict, "there is a token %q already", token.Name).On("token",
				token.Name).Permanent().
				Try(fault.Command("rye serve token remove", token.Name))
		}
		if len(all) == MostTokens {
			return nil, fault.New(fault.Limit, "there are %d tokens, and no more are possible",
				MostTokens).Try("rye serve token list")
		}
		i := 0
		for i < len(all) && all[i].Name < token.Name {
			i++
		}
		return append(all[:i:i], append([]Token{token}, all[i:]...)...), nil
	})
}

// Remove deletes the token of a name, which then opens nothing.
func (s *Tokens) Remove(ctx context.Context, name string) error {
	return s.change(ctx, func(all []Token) ([]Token, error) {
		i := at(all, name)
		if i < 0 {
			var names []string
			for _, t := range all {
				names = append(names, t.Name)
			}
			return nil, fault.New(fault.NotFound, "token %q not found", name).On("token", name).Near(name,
				names).Try("rye serve token list")
		}
		return append(all[:i:i], all[i+1:]...), nil
	})
}

// List returns the tokens, sorted by name.
func (s *Tokens) List() ([]Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(s.Dir, fileName)
	fi, err := os.Lstat(path)
	if err == nil && s.seen != nil && os.SameFile(fi, s.seen) && fi.ModTime().Equal(s.seen.ModTime()) &&
		fi.Size() == s.seen.Size() && fi.Mode() == s.seen.Mode() {
		return s.all, nil
	}
	s.all, s.seen = nil, nil
	all, fi, err := s.read()
	if err != nil {
		return nil, err
	}
	s.all, s.seen = all, fi
	return all, nil
}

// Check returns the token of a secret. One that isn't known, was removed or has expired is AUTH_FAILED; the error
// doesn't have the secret.
func (s *Tokens) Check(secret string) (*Token, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	t := find(all, secret)
	switch {
	case t == nil:
		return nil, fault.New(fault.AuthFailed, "the token is not valid").Try("rye serve token add NAME")
	case t.Expired(s.Now()):
		return nil, fault.New(fault.AuthFailed, "the token %q has expired", t.Name).On("token", t.Name).
			Try(fault.Command("rye serve token remove", t.Name), fault.Command("rye serve token add", t.Name))
	}
	return t, nil
}

// Find returns the valid token of a name; nil for none.
func (s *Tokens) Find(name string) (*Token, error) {
	all, err := s.List()
	if i := at(all, name); err == nil && i >= 0 && !all[i].Expired(s.Now()) {
		t := all[i]
		return &t, nil
	}
	return nil, err
}

// Valid reports whether a token is still valid, with the same scopes, since Check returned it.
func (s *Tokens) Valid(t *Token) bool {
	all, err := s.List()
	i := at(all, t.Name)
	return err == nil && i >= 0 && all[i].Digest == t.Digest && !t.Expired(s.Now())
}

func at(all []Token, name string) int {
	for i := range all {
		if all[i].Name == name {
			return i
		}
	}
	return -1
}

// change edits the tokens and writes them, while no other process does.
func (s *Tokens) change(ctx context.Context, edit func([]Token) ([]Token, error)) error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	if err := osfile.CheckPrivateDir(s.Dir); err != nil {
		return err
	}
	unlock, err := osfile.LockFile(ctx, filepath.Join(s.Dir, lockName))
	if err != nil {
		return err
	}
	defer unlock()
	all, _, err := s.read()
	if err != nil {
		return err
	}
	if all, err = edit(all); err != nil {
		return err
	}
	b, err := encode(all)
	if err != nil {
		return err
	}
	return osfile.Hook(nil).WriteFile(filepath.Join(s.Dir, fileName), 0o600, false, osfile.BytesOf(b))
}

// read returns the content of the file; a missing file is empty.
func (s *Tokens) read() ([]Token, fs.FileInfo, error) {
	path := filepath.Join(s.Dir, fileName)
	if err := osfile.CheckPrivateDir(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, err
	}
	file, err := osfile.OpenPrivate(path, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	fi, err := file.Stat()
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(file, maxFile+1))
	}
	if err != nil {
		return nil, nil, err
	}
	all, err := parse(b)
	if err != nil {
		return nil, nil, fault.New(fault.Parsing, "can't read %q: %v", path, err).On("path", path).
			Because("once it is moved away, no token is valid, and new ones can be added").Try(fault.Command("mv",
			path, path+".bad"))
	}
	return all, fi, nil
}

// encode writes tokens as the file has them.
func encode(all []Token) ([]byte, error) {
	b, err := json.Marshal(document{format, append([]Token{}, all...)})
	if err != nil {
		return nil, err
	}
	return jcs.Canonical(nil, b)
}

// parse reads what encode writes, and nothing else.
func parse(data []byte) ([]Token, error) {
	var document document
	if len(data) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, errors.New("it is not JSON of tokens")
	}
	if document.Format != format {
		return nil, fmt.Errorf("unsupported format %.40q: expected %s", document.Format, format)
	}
	for i := range document.Tokens {
		t := &document.Tokens[i]
		if err := t.check(); err != nil {
			return nil, err
		}
		if _, err := cas.ParseDigest(t.Digest); err != nil {
			return nil, err
		}
		if i > 0 && strings.Compare(document.Tokens[i-1].Name, t.Name) >= 0 {
			return nil, errors.New("the names are not sorted")
		}
	}
	if again, err := encode(document.Tokens); err != nil || !bytes.Equal(again, data) ||
		len(document.Tokens) > MostTokens {
		return nil, errors.New("it is not in canonical form")
	}
	return document.Tokens, nil
}
