package peers

import (
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/rye-build/rye/cas"
	ours "github.com/rye-build/rye/cas/oci"
	"github.com/rye-build/rye/cas/oci/format"
)

// pushed pushes a bundle of a large object, a small one and a signature, and returns it.
func pushed(t *testing.T, to string) (*ours.Place, ours.Content, *ours.Pushed) {
	t.Helper()
	var store cas.Memory
	c := ours.Content{Document: []byte("rye: \"bundle/2\"\n"), Source: &store,
		Attachments: []format.Attachment{{Type: format.SignaturesType,
			Parts: []format.Part{{Type: format.SignaturesType, Name: "manifest.yaml.sig", Bytes: []byte("line\n")}}}}}
	for _, b := range [][]byte{[]byte("small"), bytes.Repeat([]byte("large "), 1_000_000)} {
		info, err := store.Put(t.Context(), cas.Blob, bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		c.Objects = append(c.Objects, info)
	}
	p := open(t, to)
	done, err := p.Push(t.Context(), c, "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return p, c, done
}

func open(t *testing.T, to string) *ours.Place {
	t.Helper()
	ref, err := ours.ParseReference(to)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ours.Open(ref, ours.Options{Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// arrives pulls the bundle, with as many signatures.
func arrives(t *testing.T, p *ours.Place, name string, c ours.Content, done *ours.Pushed, signatures int) {
	t.Helper()
	m, err := p.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	_, release, err := m.Objects(t.Context(), c.Objects, new(cas.Memory), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	release()
	found := 0
	_, err = m.Attached(t.Context(), format.SignaturesType, func(*format.Attachment) error { found++; return nil })
	if err != nil || found != signatures || m.Digest != done.Digest || !bytes.Equal(m.Document, c.Document) {
		t.Errorf("%s, %d signatures, %v", m.Digest, found, err)
	}
}

// TestCrane: crane reads and copies what rye pushed, and rye pulls what crane pushed, between registries with and
// without the Referrers API.
func TestCrane(t *testing.T) {
	for _, referrers := range []bool{true, false} {
		server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)),
			ggcr.WithReferrersSupport(referrers)))
		defer server.Close()
		host := strings.TrimPrefix(server.URL, "http://")
		p, c, done := pushed(t, "oci://"+host+"/acme/deploy")
		digest, err := crane.Digest(host + "/acme/deploy:1.0.0")
		if err != nil || digest != done.Digest {
			t.Errorf("crane finds %s, %v", digest, err)
		}
		image, err := crane.Pull(host + "/acme/deploy:1.0.0")
		if err != nil {
			t.Fatal(err)
		}
		if layers, err := image.Layers(); err != nil || len(layers) != done.Layers {
			t.Errorf("%d layers, %v", len(layers), err)
		}
		if err := crane.Push(image, host+"/acme/again:1.0.0"); err != nil {
			t.Fatal(err)
		}
		if err := crane.Copy(host+"/acme/deploy:1.0.0", host+"/acme/copy:2"); err != nil {
			t.Fatal(err)
		}
		arrives(t, p, "1.0.0", c, done, 1)
		arrives(t, open(t, "oci://"+host+"/acme/again"), "1.0.0", c, done, 0) // crane leaves referrers where they are
		arrives(t, open(t, "oci://"+host+"/acme/copy"), done.Digest, c, done, 0)
	}
}

// TestORAS: a program with oras-go copies what rye pushed, referrers too, to an image layout and back, and rye pulls
// it from both.
func TestORAS(t *testing.T) {
	server := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)), ggcr.WithReferrersSupport(true)))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	_, c, done := pushed(t, "oci://"+host+"/acme/deploy")
	repository := func(name string) *remote.Repository {
		r, err := remote.NewRepository(host + "/acme/" + name)
		if err != nil {
			t.Fatal(err)
		}
		r.PlainHTTP = true
		return r
	}
	dir := filepath.Join(t.TempDir(), "layout")
	layout, err := oci.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := oras.ExtendedCopy(t.Context(), repository("deploy"), "1.0.0", layout, "1.0.0",
		oras.DefaultExtendedCopyOptions)
	if err != nil || copied.Digest.String() != done.Digest {
		t.Fatalf("%v, %v", copied, err)
	}
	arrives(t, open(t, "oci-layout:"+dir), "1.0.0", c, done, 1)
	if _, err := oras.ExtendedCopy(t.Context(), layout, "1.0.0", repository("back"), "1.0.0",
		oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	arrives(t, open(t, "oci://"+host+"/acme/back"), "1.0.0", c, done, 1)

	// And what rye has written as a layout.
	written := filepath.Join(t.TempDir(), "written")
	pushed(t, "oci-layout:"+written)
	read, err := oci.New(written)
	if err != nil {
		t.Fatal(err)
	}
	root, err := read.Resolve(context.Background(), "1.0.0")
	if err != nil || root.Digest.String() != done.Digest {
		t.Fatalf("%v, %v", root, err)
	}
	if all, err := read.Predecessors(t.Context(), root); err != nil || len(all) != 1 ||
		all[0].MediaType != ocispec.MediaTypeImageManifest {
		t.Errorf("%v, %v", all, err)
	}
}
