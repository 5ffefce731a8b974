package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"path"
	"strings"
	"time"
)

// debianVersion is a version as dpkg orders it: 1.4.0-rc.1 is before 1.4.0, so its "-" is "~".
func debianVersion(version string) string { return strings.ReplaceAll(version, "-", "~") }

// maintainer is who the package and its changelog name.
const maintainer = "The rye authors <noreply@rye-build.invalid>"

// deb returns a Debian package: an ar of its format's version, a tar that describes it and one of its files. It
// installs a static program, so it depends on nothing, and has no scripts.
func (b *build) deb(p platform, program []byte, extras []file) ([]byte, error) {
	version := debianVersion(b.version)
	files := []file{{"usr/bin/rye", 0o755, program}}
	for _, extra := range extras {
		extra.name = "usr/" + extra.name
		switch name := path.Base(extra.name); {
		case name == "LICENSE":
			extra.name = "usr/share/doc/rye/copyright"
			extra.data = append([]byte("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"+
				"Upstream-Name: rye\n\nFiles: *\n"), copyright(extra.data)...)
		case name == "README.md":
			extra.name = "usr/share/doc/rye/README.md"
		case strings.HasPrefix(extra.name, "usr/share/man/"):
			var err error
			if extra.data, err = gzipped(extra.data); err != nil {
				return nil, err
			}
			extra.name += ".gz"
		}
		files = append(files, extra)
	}
	changes, err := gzipped(fmt.Appendf(nil, `rye (%s) unstable; urgency=medium

  * Release of commit %s.

 -- %s  %s
`, version, b.commit, maintainer, b.when.Format(time.RFC1123Z)))
	if err != nil {
		return nil, err
	}
	files = append(files, file{"usr/share/doc/rye/changelog.gz", 0o644, changes})
	var size int
	var sums bytes.Buffer
	for _, f := range files {
		size += (len(f.data) + 1023) / 1024
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.name) // dpkg --verify knows no other digest
	}
	control := fmt.Sprintf(`Package: rye
Version: %s
Architecture: %s
Maintainer: %s
Installed-Size: %d
Section: devel
Priority: optional
Homepage: https://github.com/rye-build/rye
Description: package manager and build tool for what AI agents run
 rye keeps agent workflows, tools, knowledge and their files in a store
 addressed by content, groups them into signed bundles, pins them with a
 lockfile, and runs only the pinned bytes.
`, version, p.arch, maintainer, size)
	var parts [2][]byte
	for i, of := range [][]file{{{"control", 0o644, []byte(control)}, {"md5sums", 0o644, sums.Bytes()}}, files} {
		tarball, err := tarOf(of, b.when, true)
		if err != nil {
			return nil, err
		}
		if parts[i], err = gzipped(tarball); err != nil {
			return nil, err
		}
	}
	return arOf([]file{{"debian-binary", 0o644, []byte("2.0\n")}, {"control.tar.gz", 0o644, parts[0]},
		{"data.tar.gz", 0o644, parts[1]}}, b.when), nil
}

// copyright turns the text of the licence into fields of Debian's format.
func copyright(licence []byte) []byte {
	title, rest, _ := strings.Cut(string(licence), "\n")
	holder, terms, _ := strings.Cut(strings.TrimSpace(rest), "\n")
	var out bytes.Buffer
	fmt.Fprintf(&out, "Copyright: %s\nLicense: Expat\n", strings.TrimPrefix(holder, "Copyright "))
	for line := range strings.Lines(title + "\n" + terms) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			line = "."
		}
		fmt.Fprintf(&out, " %s\n", line)
	}
	return out.Bytes()
}

// arOf returns an ar archive as dpkg reads it.
func arOf(files []file, when time.Time) []byte {
	out := bytes.NewBufferString("!<arch>\n")
	for _, f := range files {
		fmt.Fprintf(out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", f.name, when.Unix(), 0, 0, 0o100000|f.mode, len(f.data))
		out.Write(f.data)
		if len(f.data)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}
