package oci

import (
	"net/http"
	"testing"
	"time"

	"github.com/rye-build/rye/cas/oci/ocitest"
)

// A double is a registry in memory.
type double struct{ *ocitest.Registry }

func newDouble(t *testing.T) *double { return &double{ocitest.New(t)} }

// place opens the repository of the double.
func (d *double) place(t *testing.T, change ...func(*Options)) *Place {
	t.Helper()
	o := Options{Transport: new(http.Transport), pauses: []time.Duration{time.Millisecond, time.Millisecond}}
	for _, f := range change {
		f(&o)
	}
	p, err := Open(Reference{Host: d.Host(), Name: "acme/deploy"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// again is another double that has what this one has. Neither takes anything any more.
func (d *double) again(t *testing.T) *double {
	o := newDouble(t)
	o.Blobs, o.Manifests, o.Tags = d.Blobs, d.Manifests, d.Tags
	return o
}
