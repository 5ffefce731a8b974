package receipt

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/manifest/key"
)

// The limits of a tree of receipts bound the cost of checking a hostile one.
const (
	MaxDepth    = 64
	MaxReceipts = 1 << 17
)

// A LinkError reports that a child call's receipt is missing or differs from the one that its parent names.
type LinkError struct {
	Parent string // the call
	Child  Child
	Err    error
}

func (e *LinkError) Error() string {
	return fmt.Sprintf("receipt: child %q of %q, %s: %v", e.Child.Call, e.Parent, e.Child.Receipt.Short(), e.Err)
}

// Unwrap returns the cause.
func (e *LinkError) Unwrap() error { return e.Err }

// Fault returns the error with the code of its cause, NotFound for a missing receipt, otherwise Integrity.
func (e *LinkError) Fault() *fault.Error {
	f := fault.New(fault.CodeOf(e.Err), "%s", e).From(e.Err).On("reason", "receipt-link").On("call",
		e.Child.Call).On("receipt", e.Child.Receipt.String())
	switch {
	case errors.Is(e.Err, fs.ErrNotExist):
		f.Code, f.Text = fault.NotFound, fmt.Sprintf("no receipt of call %s: %s not found", e.Child.Call,
			e.Child.Receipt)
	case f.Code == fault.Unknown:
		f.Code = fault.Integrity
	}
	return f
}

// VerifyTree verifies a receipt and, through get, those of its child calls down to the leaves. It calls visit with
// each, parents before children. It doesn't trust get: each receipt must have the digest asked for.
func VerifyTree(envelope []byte, keys []key.Public, get func(cas.Digest) ([]byte, error),
	visit func(depth int, r *Receipt) error) error {
	receipt, err := Verify(envelope, keys)
	if err != nil {
		return err
	}
	if err := visit(0, receipt); err != nil {
		return err
	}
	type todo struct {
		depth  int
		parent string
		child  Child
	}
	var list []todo
	push := func(depth int, r *Receipt) {
		for _, c := range slices.Backward(r.Children) {
			list = append(list, todo{depth, r.Call.ID, c})
		}
	}
	push(1, receipt)
	for n := 1; len(list) > 0; n++ {
		todo := list[len(list)-1]
		list = list[:len(list)-1]
		r, err := verifyChild(todo.parent, todo.child, keys, get)
		if err == nil && (todo.depth > MaxDepth || n >= MaxReceipts || len(list) > MaxReceipts) {
			err = fmt.Errorf("deeper than %d or more than %d receipts", MaxDepth, MaxReceipts)
		}
		if err != nil {
			return &LinkError{todo.parent, todo.child, err}
		}
		if err := visit(todo.depth, r); err != nil {
			return err
		}
		push(todo.depth+1, r)
	}
	return nil
}

func verifyChild(parent string, child Child, keys []key.Public, get func(cas.Digest) ([]byte, error)) (*Receipt,
	error) {
	b, err := get(child.Receipt)
	if err != nil {
		return nil, err
	}
	if found := cas.Sum(b); found != child.Receipt {
		return nil, fmt.Errorf("found another receipt, %s", found.Short())
	}
	r, err := Verify(b, keys)
	if err != nil {
		return nil, err
	}
	if r.Call.ID != child.Call || r.Call.Parent != parent {
		return nil, fmt.Errorf("it is about the call %q of %q", r.Call.ID, r.Call.Parent)
	}
	return r, nil
}
