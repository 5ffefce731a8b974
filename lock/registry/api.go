package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rye-build/rye/cas"
)

// What a client sends to a registry's routes below /v1.

// A Withdrawal yanks a version, or unpublishes it.
type Withdrawal struct {
	Bundle    string `json:"bundle"`
	Version   string `json:"version"`
	Unpublish bool   `json:"unpublish,omitempty"`
}

// An OwnerAction is what changes about the owners of a namespace.
type OwnerAction string

// The actions. A transfer puts an account in the caller's place, in one step.
const (
	AddOwner      OwnerAction = "add"
	RemoveOwner   OwnerAction = "remove"
	TransferOwner OwnerAction = "transfer"
)

// An OwnerChange changes the owners of a namespace.
type OwnerChange struct {
	Account string      `json:"account"`
	Action  OwnerAction `json:"action"`
}

// A Visibility says who may read what is published in a namespace.
type Visibility string

// Everyone, or who has a token of an owner with the scope read.
const (
	Public  Visibility = "public"
	Private Visibility = "private"
)

// A Claim is what the owner of a new namespace wants of it.
type Claim struct {
	Visibility Visibility `json:"visibility,omitempty"` // "" is public
}

// Settings are how a namespace publishes. What is nil or "" stays as it is.
type Settings struct {
	Visibility Visibility `json:"visibility,omitempty"`
	// Approvals is how many other owners must approve each release and each change of the namespace. 0: none.
	Approvals *int `json:"approvals,omitempty"`
	// TrustedOnly are bundles that only their pipelines may publish, true, or owners, too.
	TrustedOnly map[string]bool `json:"trusted_only,omitempty"`
}

// A Binding lets the runs of a pipeline publish one bundle. Repository and owner count by their ids, which never
// change hands.
type Binding struct {
	ID           string     `json:"id,omitempty"` // the registry gives it
	Bundle       string     `json:"bundle"`
	Issuer       string     `json:"issuer"`
	Repository   string     `json:"repository"` // for people
	RepositoryID string     `json:"repository_id"`
	OwnerID      string     `json:"owner_id"`
	Workflow     string     `json:"workflow"`              // its file in the repository
	Environment  string     `json:"environment,omitempty"` // of the run; else Ref
	Ref          string     `json:"ref,omitempty"`         // a ref such as refs/heads/main, or refs/tags/*
	By           string     `json:"by,omitempty"`          // the account that has made it
	Created      time.Time  `json:"created,omitzero"`
	Pending      *time.Time `json:"pending,omitempty"` // until when it waits for the first version of its bundle
}

// A PublisherChange adds the binding of a pipeline, or removes one by its id.
type PublisherChange struct {
	Add    *Binding `json:"add,omitempty"`
	Remove string   `json:"remove,omitempty"`
}

// An Exchange is a token of a pipeline's run, for which a registry gives one of its own.
type Exchange struct {
	Bundle string `json:"bundle"`
	Token  string `json:"token"`
}

// A Change changes a namespace. Exactly one of its fields is set.
type Change struct {
	Owner     *OwnerChange     `json:"owner,omitempty"`
	Settings  *Settings        `json:"settings,omitempty"`
	Publisher *PublisherChange `json:"publisher,omitempty"`
}

// String says what a change does, for people.
func (c *Change) String() string {
	var text []string
	if o := c.Owner; o != nil {
		text = append(text, "owner "+string(o.Action)+" "+o.Account)
	}
	if s := c.Settings; s != nil && s.Visibility != "" {
		text = append(text, "visibility "+string(s.Visibility))
	}
	if s := c.Settings; s != nil && s.Approvals != nil {
		text = append(text, fmt.Sprintf("approvals %d", *s.Approvals))
	}
	if s := c.Settings; s != nil {
		for _, bundle := range slices.Sorted(maps.Keys(s.TrustedOnly)) {
			text = append(text, fmt.Sprintf("trusted only %s %t", bundle, s.TrustedOnly[bundle]))
		}
	}
	if p := c.Publisher; p != nil && p.Add != nil {
		text = append(text, "publisher add "+p.Add.String())
	} else if p != nil {
		text = append(text, "publisher remove "+p.Remove)
	}
	return strings.Join(text, ", ")
}

// String says whose runs a binding lets publish what.
func (b *Binding) String() string {
	where := "environment " + b.Environment
	if b.Environment == "" {
		where = b.Ref
	}
	return fmt.Sprintf("%s: %s of %s (%s of %s) at %s, %s", b.Bundle, b.Workflow, b.Repository, b.RepositoryID,
		b.OwnerID, b.Issuer, where)
}

// Digest identifies a change of a namespace to those who approve it.
func (c *Change) Digest(space string) (cas.Digest, error) {
	b, err := json.Marshal(struct {
		Space  string  `json:"space"`
		Change *Change `json:"change"`
	}{space, c})
	return cas.Sum(b), err
}

// A Part is one version of a release, as it is approved.
type Part struct {
	Bundle, Version string
	Archive         cas.Digest
}

// ReleaseDigest identifies the versions of a release to those who approve them: their names and the bytes of their
// archives.
func ReleaseDigest(parts []Part) cas.Digest {
	parts = slices.SortedFunc(slices.Values(parts), func(a, b Part) int {
		return strings.Compare(a.Bundle+"@"+a.Version, b.Bundle+"@"+b.Version)
	})
	var text bytes.Buffer
	for _, p := range parts {
		fmt.Fprintf(&text, "%s@%s %s\n", p.Bundle, p.Version, p.Archive)
	}
	return cas.Sum(text.Bytes())
}

// An Answer of an owner to what is staged. Digest is that of what the owner has seen: if something else is staged by
// then, the answer doesn't count.
type Answer struct {
	Digest cas.Digest `json:"digest"`
}
