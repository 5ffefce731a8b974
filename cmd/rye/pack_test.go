package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/bundle"
	"github.com/rye-build/rye/cas"
	"github.com/rye-build/rye/manifest"
	"github.com/rye-build/rye/manifest/key/keytest"
)

// pack is "pack DIR FILE [LIST]": FILE becomes a wheel, a zip or a tarball of npm, as it is called, of what is in DIR.
// In LIST its digest takes the place of "@" NAME "@". In a wheel RECORD is made unless it is there.
func pack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 && len(args) != 3 {
		ts.Fatalf("usage: pack DIR FILE [LIST]")
	}
	dir, name := ts.MkAbs(args[0]), filepath.Base(args[1])
	var b []byte
	var err error
	digest := ""
	switch path.Ext(name) {
	case ".whl":
		b, err = packWheel(dir)
		digest = fmt.Sprintf("%x", sha256.Sum256(b))
	case ".zip":
		b, err = packZip(dir)
	default:
		b, err = packTarball(dir)
		sum := sha512.Sum512(b)
		digest = base64.StdEncoding.EncodeToString(sum[:])
	}
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(ts.MkAbs(args[1])), 0o777))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
	if len(args) < 3 {
		return
	}
	list := ts.ReadFile(args[2])
	if !strings.Contains(list, "@"+name+"@") {
		ts.Fatalf("%s doesn't name @%s@", args[2], name)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(strings.ReplaceAll(list, "@"+name+"@", digest)), 0o666))
}

// swap is "swap LOCK A B": two files of packages are pinned as each other's bytes.
func swap(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: swap LOCK A B")
	}
	text := ts.ReadFile(args[0])
	var lines, digests, sizes [2]string
	for i, name := range args[1:] {
		parts := regexp.MustCompile(`(?m)^  "` + regexp.QuoteMeta(name) +
			`": \{(digest: "[^"]*"), .*, (size: [0-9]+)\}$`).FindStringSubmatch(text)
		if parts == nil {
			ts.Fatalf("%s has no file %q", args[0], name)
		}
		lines[i], digests[i], sizes[i] = parts[0], parts[1], parts[2]
	}
	for i, line := range lines {
		other := strings.Replace(strings.Replace(line, digests[i], digests[1-i], 1), sizes[i], sizes[1-i], 1)
		text = strings.Replace(text, line, other, 1)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// packed visits the files of a directory in the order of their names.
func packed(dir string, visit func(path string, b []byte) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return visit(filepath.ToSlash(rel), b)
	})
}

func packTarball(dir string) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := packed(dir, func(path string, b []byte) error {
		// No directory can be called so, and an archive can say it.
		path = strings.ReplaceAll(path, "UP/", "../")
		if err := w.WriteHeader(&tar.Header{Name: "package/" + path, Size: int64(len(b)), Mode: 0o644}); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	})
	err = errors.Join(err, w.Close(), z.Close())
	return out.Bytes(), err
}

func packZip(dir string) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	err := packed(dir, func(path string, b []byte) error {
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	})
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

func packWheel(dir string) ([]byte, error) {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	var record strings.Builder
	info, has := "", false
	err := packed(dir, func(path string, b []byte) error {
		if at, _, ok := strings.Cut(path, "/"); ok && strings.HasSuffix(at, ".dist-info") {
			info, has = at, has || path == at+"/RECORD"
		}
		sum := sha256.Sum256(b)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", path, base64.RawURLEncoding.EncodeToString(sum[:]), len(b))
		w, err := z.Create(path)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	})
	if err == nil && !has {
		var w io.Writer
		if w, err = z.Create(info + "/RECORD"); err == nil {
			_, err = io.WriteString(w, record.String()+info+"/RECORD,,\n")
		}
	}
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}

// relist is "relist DIR KEY": the manifest of the signed plugin in DIR lists its files as they are now, and is signed
// by a publisher with that key of tests. KEY is set to its public half.
func relist(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: relist DIR KEY")
	}
	dir, signer := ts.MkAbs(args[0]), keytest.Named(args[1])
	at := filepath.Join(dir, filepath.FromSlash(bundle.PluginManifest))
	old, err := bundle.Read(strings.NewReader(ts.ReadFile(at)))
	ts.Check(err)
	var files []manifest.File
	ts.Check(packed(dir, func(name string, b []byte) error {
		if f, listed := old.File(name); listed {
			files = append(files, manifest.File{Path: name, Digest: cas.Sum(b), Size: int64(len(b)), Mode: f.Mode,
				Ref: f.Ref, Version: f.Version})
		}
		return nil
	}))
	list := *old.FileList
	list.Document = manifest.Document{}
	body, made, err := manifest.AppendFileList(nil, &list, files)
	ts.Check(err)
	ts.Check(made.Sign(signer, time.Now().UTC().Truncate(time.Second)))
	ts.Check(os.WriteFile(at, manifest.Join(nil, body, made.Signatures), 0o666))
	ts.Setenv("KEY", signer.Public().String())
}
