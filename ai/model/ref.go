package model

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rye-build/rye/ai/model/fields"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cas/portable"
)

// A Ref names an item: "tool:rye/bash/bash".
type Ref struct{ Kind, ID string }

// ParseRef parses "kind:id". Its error names the text and wraps the reason.
func ParseRef(text string) (Ref, error) {
	kind, id, found := strings.Cut(text, ":")
	var err error
	switch {
	case text == "":
		err = errors.New("it is empty; expected kind:id, as in tool:rye/bash/bash")
	case !found:
		err = errors.New("the kind is missing; expected kind:id, as in tool:" + fields.Clip(text))
	case id == "":
		err = fmt.Errorf("nothing stands behind the colon; expected kind:id, as in %s:acme/name", fields.Clip(kind))
	default:
		if err = CheckKind(kind); err == nil {
			err = portable.CheckID(id)
		}
	}
	if err != nil {
		return Ref{}, fault.New(fault.Validation, "%s names no item: %v", fields.Quote(text), err).On("reason",
			"validation-failed").From(err)
	}
	return Ref{kind, id}, nil
}

// String returns kind:id.
func (r Ref) String() string { return r.Kind + ":" + r.ID }

// Category returns the id without its last segment; "" if it has only one.
func (r Ref) Category() string {
	if i := strings.LastIndexByte(r.ID, '/'); i >= 0 {
		return r.ID[:i]
	}
	return ""
}

// Name returns the last segment of the id.
func (r Ref) Name() string { return r.ID[strings.LastIndexByte(r.ID, '/')+1:] }

// maxKind is the length of a kind's name that policies know too.
const maxKind = 32

// CheckKind returns nil if items can have a kind of this name.
func CheckKind(name string) error {
	if !portable.Spelled(name, portable.Lower, portable.Digits+"-", maxKind) {
		return fmt.Errorf("%s is not a kind: expected a lower-case letter, then a-z 0-9 -, at most %d",
			fields.Quote(name), maxKind)
	}
	switch name {
	case "audit", "build", "bundle", "index", "policy", "revocations", "rotation", "token", "transcript":
		return fmt.Errorf("%s is what a document is called: no item is of that kind", fields.Quote(name))
	}
	return nil
}

// IsAsset reports whether a path can only be an asset's: a segment of it begins with "_" or ".".
func IsAsset(path string) bool {
	start := true
	for i := range len(path) {
		if start && (path[i] == '_' || path[i] == '.') {
			return true
		}
		start = path[i] == '/'
	}
	return false
}
