package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/cli"
)

// toolIn is a tool of a category.
func toolIn(category, description string) string {
	return strings.Replace(itemText(description), `"acme"`, strconv.Quote(category), 1)
}

// mutatedHome is a project with everything that rye lock writes: its own items, one of them with several files, and
// two bundles. One of the bundles comes from an index with several versions and requires the other.
func mutatedHome(t *testing.T) *bundleHome {
	h := newBundleHome(t)
	h.write("dist/README", "archives of bundles\n")
	for _, v := range []string{"1.0.0", "1.1.0"} {
		h.write("src/base/bundle.yaml", "id: base\nversion: "+v+"\n")
		h.write("src/base/.ai/tools/base/x.py", toolIn("base", "x of "+v))
		h.rye(fault.ExitDone, "sign", "--all", "-q", "-C", filepath.Join(h.dir, "src/base"))
		h.rye(fault.ExitDone, "bundle", "create", "-C", filepath.Join(h.dir, "src/base"))
		h.rye(fault.ExitDone, "bundle", "export", "-C", filepath.Join(h.dir, "src/base"), "-o",
			filepath.Join(h.dir, "dist/base-"+v+".rye"))
	}
	h.write("src/shop/bundle.yaml", "id: shop\nversion: 2.0.0\nrequires: {base: \"^1.0\"}\n")
	h.write("src/shop/.ai/tools/shop/y.py", toolIn("shop", "y"))
	h.rye(fault.ExitDone, "sign", "--all", "-q", "-C", filepath.Join(h.dir, "src/shop"))
	h.rye(fault.ExitDone, "bundle", "create", "-C", filepath.Join(h.dir, "src/shop"))
	h.rye(fault.ExitDone, "bundle", "export", "-C", filepath.Join(h.dir, "src/shop"), "-o",
		filepath.Join(h.dir, "dist/shop-2.0.0.rye"))
	h.rye(fault.ExitDone, "bundle", "index", filepath.Join(h.dir, "dist"), "--name", "acme/bundles")
	h.write("rye.yaml",
		"requires:\n  shop: {version: \"^2\", index: \"./dist\"}\nroots: [\"tool:acme/**\", \"tool:shop/**\", \"tool:base/**\", \"config:limits\"]\n")
	h.write(".ai/tools/acme/kit/kit.py", toolIn("acme/kit", "kit"))
	h.write(".ai/tools/acme/kit/__init__.py", "")
	h.write(".ai/tools/acme/kit/part.txt", "part\n")
	h.write(".ai/config/limits.yaml", "most: 3\n")
	h.rye(fault.ExitDone, "sign", "--all", "-q")
	return h
}

var (
	lockLine  = regexp.MustCompile(`^  ("[^"]*"): \{(.*)\}$`)
	lockField = regexp.MustCompile(`([a-z]+): ("[^"]*"|\[[^\]]*\]|\d+)`)
)

// lockMutants are edits of one line, name or field of a lock.
func lockMutants(text string) map[string]string {
	lines := strings.SplitAfter(text, "\n")
	all := map[string]string{"empty": ""}
	with := func(what string, i int, line ...string) {
		all[what] = strings.Join(slices.Concat(lines[:i], line, lines[i+1:]), "")
	}
	var values []string // of all fields, so that what is put in may be right elsewhere
	for _, line := range lines {
		for _, f := range lockField.FindAllStringSubmatch(line, -1) {
			if !slices.Contains(values, f[2]) {
				values = append(values, f[2])
			}
		}
	}
	for i, line := range lines[:len(lines)-1] {
		at := fmt.Sprintf("line %d", i+1)
		with(at+" is gone", i)
		with(at+" twice", i, line, line)
		all[at+" is the last"] = strings.Join(lines[:i], "")
		m := lockLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		entry := func(name string, fields []string) string {
			return "  " + name + ": {" + strings.Join(fields, ", ") + "}\n"
		}
		fields := lockField.FindAllString(m[2], -1)
		with(at+" of another name", i, entry(m[1][:len(m[1])-1]+`x"`, fields))
		for j, f := range fields {
			name, value, _ := strings.Cut(f, ": ")
			with(at+" without "+name, i, entry(m[1], slices.Concat(fields[:j], fields[j+1:])))
			// Every value would be tens of thousands: each field meets some, other ones each.
			others := []string{`""`, "0", "[]", strings.Replace(value, "a", "b", 1), value[:1] + "9" + value[1:]}
			for n, v := range values {
				if (n+i+j)%7 == 0 && v[0] == value[0] {
					others = append(others, v)
				}
			}
			for _, v := range others {
				if v != value {
					with(at+" with "+name+": "+v, i, entry(m[1],
						slices.Concat(fields[:j], []string{name + ": " + v}, fields[j+1:])))
				}
			}
		}
	}
	return all
}

// TestLockEdited edits one thing in a lock by hand: rye lock --check always finds it, and rye lock refuses it or makes
// the lock what it was. Then nothing is left of the edit.
func TestLockEdited(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	h := mutatedHome(t)
	h.rye(fault.ExitDone, "lock", "-q")
	h.rye(fault.ExitDone, "lock", "--check", "-q")
	path := filepath.Join(h.dir, "rye.lock")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	for _, want := range []string{"\nrequires:\n", "\nbundles:\n", "\npins:\n", "\ndefinitions:\n", ` files: "`,
		`"tool:base/x"`} {
		if !strings.Contains(good, want) {
			t.Fatalf("there is no %q in\n%s", want, good)
		}
	}
	refused, healed := 0, 0
	for what, text := range lockMutants(good) {
		if text == good {
			continue
		}
		h.write("rye.lock", text)
		// What says of bytes that aren't here that they are needed has them missing.
		if status, out := h.try("lock", "--check"); status != fault.ExitNo &&
			!(status == fault.ExitMissing && strings.Contains(what, "manifest")) {
			t.Errorf("%s: --check exits with %d: %s", what, status, out)
		}
		status, out := h.try("lock")
		now, err := os.ReadFile(path)
		switch {
		case err != nil:
			t.Fatal(err)
		case status == fault.ExitDone && string(now) == good:
			healed++
		case status != fault.ExitDone && string(now) == text:
			refused++
		default:
			t.Errorf("%s: exit %d: %s\n%s", what, status, out, now)
		}
	}
	t.Logf("%d are refused, %d healed", refused, healed)
	if refused < 400 || healed < 100 {
		t.Errorf("%d are refused and %d healed", refused, healed)
	}
}

// try runs a command line in the project, and returns its exit status and all it says.
func (h *bundleHome) try(args ...string) (int, string) {
	host, stdout, stderr := testHost("HOME="+h.home, "USERPROFILE="+h.home, "LOCALAPPDATA="+h.home)
	host.Getwd = func() (string, error) { return h.dir, nil }
	status := cli.Run(host, commands(), args)
	return status, stdout.String() + stderr.String()
}
