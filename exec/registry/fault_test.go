package registry_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/rye-build/rye/exec/registry"
	"github.com/rye-build/rye/exec/registry/rows"
)

// faulty is a store whose reads fail after some.
type faulty struct {
	rows.Store
	left int
}

func (f *faulty) View(ctx context.Context, look func(rows.Reader) error) error {
	return f.Store.View(ctx, func(in rows.Reader) error { return look(faultyReader{in, f}) })
}

func (f *faulty) Update(ctx context.Context, change func(rows.Writer) error) error {
	return f.Store.Update(ctx, func(in rows.Writer) error { return change(faultyWriter{in, f}) })
}

func (f *faulty) step() error {
	if f.left--; f.left < 0 {
		return errStopped
	}
	return nil
}

type faultyReader struct {
	rows.Reader
	f *faulty
}

func (r faultyReader) Get(name string) ([]byte, error) {
	if err := r.f.step(); err != nil {
		return nil, err
	}
	return r.Reader.Get(name)
}

func (r faultyReader) Scan(prefix, after string) iter.Seq2[rows.Row, error] {
	return func(yield func(rows.Row, error) bool) {
		if err := r.f.step(); err != nil {
			yield(rows.Row{}, err)
			return
		}
		r.Reader.Scan(prefix, after)(yield)
	}
}

type faultyWriter struct {
	rows.Writer
	f *faulty
}

func (w faultyWriter) Get(name string) ([]byte, error) { return faultyReader{w.Writer, w.f}.Get(name) }

func (w faultyWriter) Scan(prefix, after string) iter.Seq2[rows.Row, error] {
	return faultyReader{w.Writer, w.f}.Scan(prefix, after)
}

// TestUnreadableRows lets each read of each operation fail once: the error is returned, and the operation can be made
// again as if it had never been.
func TestUnreadableRows(t *testing.T) {
	w := newWorld(t)
	ada, eve := w.caller("ada"), w.caller("eve")
	w.claim(ada, "acme")
	w.claim(eve, "zebra")
	w.publish(ada, pack{id: "acme/base", version: "1.0.0"})
	w.publish(ada, pack{id: "acme/base", version: "1.1.0"})
	secret, made, err := w.AddToken(t.Context(), registry.Token{Account: "ada", Label: "x",
		Scopes: registry.Scopes})
	if err != nil {
		t.Fatal(err)
	}
	b := w.archive(pack{id: "acme/base", version: "2.0.0"})
	ctx := t.Context()
	for name, do := range map[string]func(r *registry.Registry) error{
		"publish": func(r *registry.Registry) error {
			_, err := r.Publish(ctx, ada, bytes.NewReader(b))
			return err
		},
		"claim": func(r *registry.Registry) error { _, err := r.Claim(ctx, ada, "fresh", ""); return err },
		"owner": func(r *registry.Registry) error {
			_, err := r.Change(ctx, eve, "zebra", adding("ada"))
			return err
		},
		"yank": func(r *registry.Registry) error {
			_, err := r.Withdraw(ctx, ada, "acme/base", "1.0.0", false)
			return err
		},
		"unpublish": func(r *registry.Registry) error {
			_, err := r.Withdraw(ctx, ada, "acme/base", "1.1.0", true)
			return err
		},
		"space":    func(r *registry.Registry) error { _, err := r.Space(ctx, nil, "acme"); return err },
		"versions": func(r *registry.Registry) error { _, err := r.Versions(ctx, nil, "acme/base"); return err },
		"search":   func(r *registry.Registry) error { _, err := r.Search(ctx, nil, "acme", ""); return err },
		"verify":   func(r *registry.Registry) error { _, err := r.Verify(ctx); return err },
		"account":  func(r *registry.Registry) error { _, err := r.AddAccount(ctx, "grace"); return err },
		"caller":   func(r *registry.Registry) error { _, err := r.Caller(ctx, secret); return err },
		"tokens":   func(r *registry.Registry) error { _, err := r.Tokens(ctx, "ada"); return err },
		"add token": func(r *registry.Registry) error {
			_, _, err := r.AddToken(ctx, registry.Token{Account: "eve", Label: "y", Scopes: registry.Scopes})
			return err
		},
		"audit":   func(r *registry.Registry) error { _, err := r.Audit(ctx, registry.Filter{}); return err },
		"metrics": func(r *registry.Registry) error { _, err := r.Metrics(ctx); return err },
		"seen": func(r *registry.Registry) error {
			_, err := r.Seen(ctx, nil, w.read("log/checkpoint"))
			return err
		},
		"backup":       func(r *registry.Registry) error { _, err := r.Backup(ctx, folder(t), nil); return err },
		"remove token": func(r *registry.Registry) error { return r.RemoveToken(ctx, "ada", made.ID) },
		"disable":      func(r *registry.Registry) error { return r.Disable(ctx, "grace", true) },
	} {
		if name == "disable" { // in any order
			if _, err := w.AddAccount(ctx, "grace"); err != nil {
				t.Fatal(err)
			}
		}
		if name == "caller" || name == "remove token" { // the token of the other
			if secret, made, err = w.AddToken(ctx, registry.Token{Account: "ada", Label: "x",
				Scopes: registry.Scopes}); err != nil {
				t.Fatal(err)
			}
		}
		for n := 0; ; n++ {
			o := w.o
			store := &faulty{w.o.Rows, 1 << 30}
			o.Rows = store
			r, err := registry.Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			store.left = n
			err = do(r)
			if err == nil {
				if n == 0 {
					t.Errorf("%s reads nothing", name)
				}
				break
			}
			if !errors.Is(err, errStopped) {
				t.Errorf("%s, read %d: %v", name, n, err)
				break
			}
		}
	}
	w.open()
	if check, err := w.Verify(ctx); err != nil || len(check.Wrong) > 0 {
		t.Errorf("%+v, %v", check, err)
	}
	store := &faulty{w.o.Rows, 0}
	o := w.o
	o.Rows = store
	if _, err := registry.Open(ctx, o); !errors.Is(err, errStopped) {
		t.Errorf("a registry begins without its rows: %v", err)
	}
}
