package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one of an archive.
type file struct {
	name string
	mode int64
	data []byte
}

// extras returns what goes with the program: README, licence, man pages, completions. Names are as in an archive.
func (b *build) extras() ([]file, error) {
	var all []file
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(b.src, name))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name, 0o644, data})
	}
	for shell, name := range map[string]string{"bash": "bash-completion/completions/rye",
		"zsh": "zsh/vendor-completions/_rye", "fish": "fish/vendor_completions.d/rye.fish"} {
		script, err := b.run("", b.tool, "completion", shell)
		if err != nil {
			return nil, err
		}
		all = append(all, file{"share/" + name, 0o644, script})
	}
	pages, err := b.pages()
	if err != nil {
		return nil, err
	}
	for name, page := range pages {
		all = append(all, file{"share/man/man1/" + name, 0o644, page})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// pack adds the archive of a platform, and for Linux its Debian package.
func (b *build) pack(files map[string][]byte, p platform, extras []file) error {
	program, err := os.ReadFile(b.programs[p])
	if err != nil {
		return err
	}
	name := fmt.Sprintf("rye_%s_%s_%s", b.version, p.os, p.arch)
	if p.os == "windows" {
		data, err := zipOf(name, append([]file{{"rye.exe", 0o755, program}}, extras...), b.when)
		files[name+".zip"] = data
		return err
	}
	all := []file{{"rye", 0o755, program}}
	for _, extra := range extras {
		all = append(all, file{path.Join(name, extra.name), extra.mode, extra.data})
	}
	all[0].name = path.Join(name, "rye")
	tarball, err := tarOf(all, b.when, false)
	if err == nil {
		files[name+".tar.gz"], err = gzipped(tarball)
	}
	if err != nil || p.os != "linux" {
		return err
	}
	files[fmt.Sprintf("rye_%s_%s.deb", b.version, p.arch)], err = b.deb(p, program, extras)
	return err
}

// tarOf returns a tar that depends on nothing but its files and the time. With dirs, each directory has an entry.
func tarOf(files []file, when time.Time, dirs bool) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	seen := map[string]bool{".": true}
	for _, f := range files {
		header := func(name string, mode, size int64, kind byte) error {
			return w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: size, Typeflag: kind, ModTime: when,
				Uname: "root", Gname: "root", Format: tar.FormatGNU})
		}
		var parents []string
		for dir := path.Dir(f.name); dirs && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			parents = append(parents, dir)
		}
		for _, dir := range slices.Backward(parents) {
			if err := header("./"+dir+"/", 0o755, 0, tar.TypeDir); err != nil {
				return nil, err
			}
		}
		name := f.name
		if dirs {
			name = "./" + name
		}
		if err := header(name, f.mode, int64(len(f.data)), tar.TypeReg); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped compresses without a name or a time.
func gzipped(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// zipOf returns a zip of files below a folder.
func zipOf(folder string, files []file, when time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		header := &zip.FileHeader{Name: path.Join(folder, f.name), Method: zip.Deflate, Modified: when}
		header.SetMode(os.FileMode(f.mode))
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(f.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// modules returns an SBOM of the Go modules in the programs for these platforms, as CycloneDX. It has no time: the
// same modules give the same bytes.
func (b *build) modules(platforms []platform) ([]byte, error) {
	type component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl"`
	}
	found := map[string]component{}
	of := func(kind, name, version string) component {
		ref := "pkg:golang/" + name + "@" + version
		return component{kind, ref, name, version, ref}
	}
	var main component
	for _, p := range platforms {
		info, err := buildinfo.ReadFile(b.programs[p])
		if err != nil {
			return nil, err
		}
		main = of("application", info.Main.Path, info.Main.Version)
		std := of("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))
		found[std.Ref] = std
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			c := of("library", m.Path, m.Version)
			found[c.Ref] = c
		}
	}
	refs := slices.Sorted(maps.Keys(found))
	components := make([]component, len(refs))
	for i, ref := range refs {
		components[i] = found[ref]
	}
	bill, err := json.MarshalIndent(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":     map[string]any{"component": main},
		"components":   components,
		"dependencies": []any{map[string]any{"ref": main.Ref, "dependsOn": refs}}}, "", "  ")
	return append(bill, '\n'), err
}
