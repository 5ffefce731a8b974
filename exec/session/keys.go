package session

import (
	"io/fs"
	"sync"

	"github.com/rye-build/rye/manifest/key"
)

// Keys are the user's keys, as far as they can be used without asking anybody. The zero value has none.
type Keys struct {
	Dir        string // holds the user's keys; "" for those of the workspace's user space
	PEM        string // a private key that counts before the default one; "" for none
	Passphrase string // of the key that signs; "" if there is none to give
	// Check refuses to sign, such as while a private key lies in the project; nil allows it.
	Check func() error
}

// Signing returns the key that signs where none is named.
func (k Keys) Signing() (key.Private, error) {
	if k.Check != nil {
		if err := k.Check(); err != nil {
			return key.Private{}, err
		}
	}
	return k.Open()
}

// Open returns the key that signs where none is named, whether it may sign now or not.
func (k Keys) Open() (key.Private, error) {
	var passphrase func() (string, error)
	if k.Passphrase != "" {
		passphrase = func() (string, error) { return k.Passphrase, nil }
	}
	if k.PEM != "" {
		return key.ParsePrivate([]byte(k.PEM), passphrase)
	}
	if k.Dir == "" {
		return key.Private{}, fs.ErrNotExist
	}
	dir := key.OpenDir(k.Dir)
	name, err := dir.Default()
	if err != nil {
		return key.Private{}, err
	}
	return dir.Private(name, passphrase)
}

// owns returns a function that reports whether the user holds a private key.
func (k Keys) owns() func(key.Fingerprint) bool {
	own := sync.OnceValue(func() map[key.Fingerprint]bool {
		own := map[key.Fingerprint]bool{}
		if k.Dir != "" {
			entries, _ := key.OpenDir(k.Dir).List() // a key that can't be read isn't the user's
			for _, e := range entries {
				if e.Err == nil {
					own[e.Public.Fingerprint()] = true
				}
			}
		}
		if k.PEM != "" {
			if p, err := k.Open(); err == nil {
				own[p.Public().Fingerprint()] = true
			}
		}
		return own
	})
	return func(f key.Fingerprint) bool { return own()[f] }
}
