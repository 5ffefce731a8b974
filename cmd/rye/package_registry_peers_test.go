//go:build peers && linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/lock/packages"
	"github.com/rye-build/rye/lock/web/webtest"
)

// packageRegistry is "packageregistry WHEELS TARBALLS": the wheels and tarballs in two directories, by https on this
// machine, as PyPI and npm have them. Its host is in REGISTRY, and SSL_CERT_FILE has its certificate.
// npm, which goes through the sandbox's proxy, takes the name localhost for the address.
func packageRegistry(t *testing.T, ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: packageregistry WHEELS TARBALLS")
	}
	wheels, tarballs := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b []byte
		var err error
		switch at := r.URL.Path; {
		case strings.HasPrefix(at, "/simple/"):
			w.Header().Set("Content-Type", "text/html")
			b, err = simplePage(wheels, path.Base(at))
		case strings.HasSuffix(at, ".whl"):
			b, err = os.ReadFile(filepath.Join(wheels, path.Base(at)))
		case strings.HasSuffix(at, ".tgz"):
			b, err = os.ReadFile(filepath.Join(tarballs, path.Base(at)))
		default:
			b, err = packument(tarballs, server.URL, strings.TrimPrefix(at, "/"))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(b)
	})
	certificate, _ := webtest.Certificate(t, "localhost")
	server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	server.StartTLS()
	ts.Defer(server.Close)
	roots := ts.MkAbs("registry.pem")
	ts.Check(os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Leaf.Raw}),
		0o600))
	ts.Setenv("SSL_CERT_FILE", roots)
	ts.Setenv("REGISTRY", server.Listener.Addr().String())
}

// simplePage is the page of a project in a simple index.
func simplePage(dir, project string) ([]byte, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	var page bytes.Buffer
	for _, at := range all {
		name, _, _ := strings.Cut(filepath.Base(at), "-")
		if packages.Normal(name) != project {
			continue
		}
		b, err := os.ReadFile(at)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&page, "<a href=\"/wheels/%s#sha256=%x\">%[1]s</a>\n", filepath.Base(at), sha256.Sum256(b))
	}
	if page.Len() == 0 {
		err = errors.Join(err, os.ErrNotExist)
	}
	return page.Bytes(), err
}

// packument is what npm's registry tells about a package.
func packument(dir, registry, name string) ([]byte, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	versions, newest := map[string]any{}, ""
	for _, at := range all {
		about, sum, err := packageJSON(at)
		if err != nil {
			return nil, err
		}
		if about["name"] != name {
			continue
		}
		newest, _ = about["version"].(string)
		about["dist"] = map[string]any{"tarball": registry + "/" + name + "/-/" + filepath.Base(at), "integrity": sum}
		versions[newest] = about
	}
	if newest == "" {
		return nil, errors.Join(err, os.ErrNotExist)
	}
	return json.Marshal(map[string]any{"name": name, "dist-tags": map[string]any{"latest": newest},
		"versions": versions})
}

// packageJSON returns the package.json of a tarball, and npm's digest of it.
func packageJSON(at string) (about map[string]any, sum string, err error) {
	b, err := os.ReadFile(at)
	if err != nil {
		return nil, "", err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, "", err
	}
	digest := sha512.Sum512(b)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			return nil, "", err
		}
		if h.Name != "package/package.json" {
			continue
		}
		text, err := io.ReadAll(r)
		if err == nil {
			err = json.Unmarshal(text, &about)
		}
		return about, "sha512-" + base64.StdEncoding.EncodeToString(digest[:]), err
	}
}
