package catalog

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/exec/catalog/launcher"
	"github.com/rye-build/rye/lock/packages"
)

const (
	pip          = "pip"
	requirements = "requirements.txt"
	starter      = "start.py"
)

// publicPyPI are the hosts of the public index and of its files, whose metadata pip reads.
var publicPyPI = []string{"pypi.org", "files.pythonhosted.org"}

// noFile is the file that pip takes for no configuration.
var noFile = strings.ToLower(os.DevNull)

// startProgram is the program that starts one of a package from the packages of the server's item.
//
//go:embed start.py
var startProgram []byte

// pip lets pip list a package: of wheels alone, so it builds nothing, and by an index alone.
func (r *Resolver) pip(p *launcher.Package, registry string, roots bool) {
	r.Written = "report.json"
	r.args = []string{python, "-I", "-B", "-m", pip, "install", "--isolated", "--dry-run", "--ignore-installed",
		"--only-binary=:all:", "--no-cache-dir", "--no-input", "--disable-pip-version-check", "--quiet",
		"--report=" + r.Written}
	if registry == "" {
		registry, r.Hosts = "https://pypi.org/simple", publicPyPI
	}
	r.args = append(r.args, "--index-url="+registry)
	if roots {
		r.args = append(r.args, "--cert="+Roots)
	}
	r.args = append(r.args, p.String())
}

// A pipReport is what pip would install (version 1 of its installation report).
type pipReport struct {
	Install []struct {
		Download struct {
			URL     string `json:"url"`
			Archive struct {
				Hash   string            `json:"hash"`
				Hashes map[string]string `json:"hashes"`
			} `json:"archive_info"`
		} `json:"download_info"`
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
	} `json:"install"`
}

// requirementsOf makes the list of what pip would install.
func requirementsOf(report []byte) ([]byte, error) {
	var read pipReport
	if err := json.Unmarshal(report, &read); err != nil {
		return nil, fmt.Errorf("pip's report: %w", err)
	}
	lines := make([]string, 0, len(read.Install))
	for _, x := range read.Install {
		sum := x.Download.Archive.Hashes["sha256"]
		if sum == "" {
			sum = strings.TrimPrefix(x.Download.Archive.Hash, "sha256=")
		}
		name := x.Metadata.Name
		if !packages.IsPythonName(name) {
			return nil, fmt.Errorf("pip's report has an invalid name %q", fault.Clip(name, 80))
		}
		file, _, _ := strings.Cut(x.Download.URL, "#")
		if !strings.HasSuffix(file, ".whl") {
			return nil, fmt.Errorf("%s is no wheel: %q", name, fault.Clip(path.Base(file), 80))
		}
		lines = append(lines, fmt.Sprintf("%s==%s \\\n    --hash=sha256:%s\n", packages.Normal(name),
			x.Metadata.Version, sum))
	}
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), nil
}

// usePython makes a server of a program of a Python package, from the list that pip's report gives.
func (s *Spec) usePython(p *launcher.Package, list []byte) ([]Beside, error) {
	all, err := packages.Requirements(bytes.NewReader(list))
	if _, err = find(p, all, err, func(q *packages.Package) bool { return q.Name == p.Name }); err != nil {
		return nil, err
	}
	program := p.Program
	if program == "" {
		program = p.Name
	}
	s.Command, s.Python = python, true
	s.Args = append([]string{"-I", "-S", "-B", "-u", "-X", "utf8", "{runtime_lib}/" + starter, p.Name, program},
		p.Args...)
	return []Beside{{requirements, list}, {starter, startProgram}}, nil
}
