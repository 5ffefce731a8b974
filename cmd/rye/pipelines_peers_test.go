//go:build peers

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// A pipeline is a repository with a project in "sub" and what runs the files that rye init --ci wrote for it.
type pipeline struct {
	*testing.T
	repo, runner string // the repository, and the directory of files for a step
	env          []string
}

func newPipeline(t *testing.T, service string) *pipeline {
	rye, err := exec.LookPath("rye") // this test, as package testscript puts it there
	if err != nil {
		t.Fatal(err)
	}
	p := &pipeline{T: t, repo: t.TempDir(), runner: t.TempDir()}
	home := t.TempDir()
	p.env = []string{"HOME=" + home, "PATH=" + filepath.Dir(rye) + ":" + os.Getenv("PATH"), "CI_PROJECT_DIR=" + p.repo,
		"RUNNER_TEMP=" + p.runner,
		"GITHUB_OUTPUT=" + filepath.Join(p.runner, "output"),
		"GITHUB_STEP_SUMMARY=" + filepath.Join(p.runner, "summary.md")}
	for _, dir := range []string{".git", "sub", "base"} {
		if err := os.Mkdir(filepath.Join(p.repo, dir), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	p.write("base/bundle.yaml", "id: base\nversion: 1.0.0\n")
	for _, line := range [][]string{{"base", "init"}, {"base", "new", "tool", "base/run"},
		{"base", "bundle", "create"},
		{"sub", "init", "--ci", service}, {"sub", "new", "tool", "acme/run"},
		{"sub", "add", "base", "--from", "../base"}} {
		if out, status := p.run(line[0], nil, "rye", line[1:]...); status != 0 {
			t.Fatalf("%q: %d\n%s", line, status, out)
		}
	}
	if service != "pre-commit" { // the machine of a pipeline has nothing of it
		p.env = append(p.env, "RYE_STORE="+filepath.Join(home, "fresh"))
	}
	// which is a bundle in the answer of rye bundle verify too
	p.write("sub/bundle.yaml", "id: acme\nversion: 0.1.0\nrequires:\n  base: ^1.0\n")
	return p
}

func (p *pipeline) write(name, text string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.repo, name), []byte(text), 0o666); err != nil {
		p.Fatal(err)
	}
}

func (p *pipeline) read(dir, name string) string {
	p.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		p.Fatal(err)
	}
	return string(b)
}

func (p *pipeline) yaml(name string, into any) {
	p.Helper()
	if err := yaml.Unmarshal([]byte(p.read(p.repo, name)), into); err != nil {
		p.Fatal(err)
	}
}

// run runs a command and returns its output and exit status.
func (p *pipeline) run(dir string, env []string, name string, args ...string) (string, int) {
	p.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = filepath.Join(p.repo, dir), append(append([]string{}, p.env...), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
		p.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func (p *pipeline) rye(args ...string) (string, int) { return p.run("sub", nil, "rye", args...) }

// output returns what rye writes to standard output in the project, whatever its exit status.
func (p *pipeline) output(args ...string) []byte {
	cmd := exec.Command("rye", args...)
	cmd.Dir, cmd.Env = filepath.Join(p.repo, "sub"), p.env
	out, _ := cmd.Output()
	return out
}

// bash runs a block as GitHub and GitLab do.
func (p *pipeline) bash(dir string, env []string, block string) (string, int) {
	file := filepath.Join(p.T.TempDir(), "step.sh")
	if err := os.WriteFile(file, []byte(block), 0o666); err != nil {
		p.Fatal(err)
	}
	return p.run(dir, env, "bash", "--noprofile", "--norc", "-eo", "pipefail", file)
}

// breakIt breaks the project in a way.
func (p *pipeline) breakIt(how string) {
	p.Helper()
	const tool = "sub/.ai/tools/acme/run.py"
	switch how {
	case "unlocked":
		p.breakIt("damaged")
		if out, status := p.rye("sign", "tool:acme/run"); status != 0 {
			p.Fatal(out)
		}
	case "damaged":
		p.write(tool, p.read(p.repo, tool)+"# <b>|`\n")
	case "invalid":
		p.write("sub/.ai/tools/acme/bad.py",
			"__version__ = \"1.0.0\"\n__tool_type__ = \"x\"\n__executor_id__ = \"no/such\"\n__category__ = \"acme\"\n__tool_description__ = \"x\"\n")
	case "recipe":
		p.write("sub/bundle.yaml", "id: acme\nnonsense: true\n")
	}
}

// An action is what counts of action.yml.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Steps []struct {
			Name, If, Shell, Run, Uses string
			Dir                        string `yaml:"working-directory"`
			Env                        map[string]string
		}
	}
}

var expression = regexp.MustCompile(`^\$\{\{ (.*) \}\}$`)

// steps runs the steps of the action, all but those of others, and returns their exit statuses. between runs after a
// step.
func (p *pipeline) steps(inputs map[string]string, between func(name string)) map[string]int {
	p.Helper()
	var a action
	p.yaml(".github/actions/rye/action.yml", &a)
	given := map[string]string{}
	for name, i := range a.Inputs {
		given[name] = i.Default
	}
	maps.Copy(given, inputs)
	value := func(text string) string {
		if m := expression.FindStringSubmatch(text); m != nil {
			name, ok := strings.CutPrefix(m[1], "inputs.")
			if _, known := given[name]; !ok || !known {
				p.Fatalf("unknown expression %q", text)
			}
			return given[name]
		}
		return text
	}
	failed := false
	statuses := map[string]int{}
	for _, s := range a.Runs.Steps {
		release := given["release"] == "true"
		wanted, ok := map[string]bool{
			"":                                !failed,
			"${{ !cancelled() }}":             true,
			"${{ inputs.release == 'true' }}": !failed && release,
			"${{ inputs.release == 'true' && inputs.push != '' }}": !failed && release && given["push"] != "",
			"${{ !cancelled() && inputs.sarif == 'true' }}":        given["sarif"] == "true",
		}[s.If]
		if !ok {
			p.Fatalf("unknown condition %q", s.If)
		}
		switch {
		case s.Name == "install":
			if !strings.Contains(s.Run, `go install "github.com/rye-build/rye/cmd/rye@$VERSION"`) ||
				value(s.Env["VERSION"]) != "latest" {
				p.Errorf("install: %q %q", s.Run, s.Env)
			}
			continue
		case s.Uses != "":
			statuses[s.Name] = 0
			if strings.Contains(s.Run, "${{") || s.Uses != "github/codeql-action/upload-sarif@v4" {
				p.Errorf("%+v", s)
			}
			continue
		case strings.Contains(s.Run, "${{") || s.Shell != "bash":
			p.Errorf("%s: what is given must come in by the environment: %s", s.Name, s.Run)
		case !wanted:
			continue
		}
		var env []string
		for name, text := range s.Env {
			env = append(env, name+"="+value(text))
		}
		out, status := p.bash(value(s.Dir), env, s.Run)
		p.Logf("%s: %d\n%s", s.Name, status, out)
		statuses[s.Name] = status
		failed = failed || status != 0
		if between != nil {
			between(s.Name)
		}
	}
	return statuses
}

// ownStatus stands for the exit status that rye has by itself.
const ownStatus = -1

// TestGitHubAction: the steps of the action, on a project that passes and on ones that fail in each step. The exit
// status of a step is that of rye, and summary and SARIF are there either way. What is pinned and stands nowhere any
// more isn't found.
func TestGitHubAction(t *testing.T) {
	for _, test := range []struct {
		how     string
		inputs  map[string]string
		want    map[string]int
		summary []string
		results map[string]string // a rule that the SARIF of a step names
	}{
		{"", nil, map[string]int{"fetch": 0, "lock": 0, "verify": 0, "check": 0, "upload": 0},
			[]string{"### rye lock --check: passed", "### rye verify: passed", "### rye check: passed"},
			map[string]string{"lock": "", "verify": "", "check": ""}},
		{"unlocked", nil, map[string]int{"fetch": 3, "lock": 1, "verify": 0, "check": 0, "upload": 0},
			[]string{"### rye lock --check: failed", "`sub/rye.lock:", "### rye verify: passed"},
			map[string]string{"lock": "LOCK_MISMATCH", "verify": "", "check": ""}},
		{"damaged", nil, map[string]int{"fetch": 3, "lock": 1, "verify": 1, "check": 0, "upload": 0},
			[]string{"### rye verify: failed", "`sub/.ai/tools/acme/run.py:1`"},
			map[string]string{"lock": "INTEGRITY_FAILED", "verify": "INTEGRITY_FAILED", "check": ""}},
		{"invalid", nil, map[string]int{"fetch": 0, "lock": 0, "verify": 1, "check": 1, "upload": 0}, // a draft
			[]string{"### rye check: failed", "`sub/.ai/tools/acme/bad.py:3`"},
			map[string]string{"lock": "", "verify": "EXECUTOR_NOT_FOUND", "check": "EXECUTOR_NOT_FOUND"}},
		{"", map[string]string{"release": "true"}, map[string]int{"fetch": 0, "lock": 0, "verify": 0, "check": 0,
			"create": 0, "bundle": 0, "upload": 0},
			[]string{"### rye bundle create", "    made  acme@0.1.0", "### rye bundle verify"}, nil},
		{"", map[string]string{"release": "true", "push": "oci://127.0.0.1:1/x"},
			map[string]int{"fetch": 0, "lock": 0, "verify": 0, "check": 0, "create": 0, "bundle": 0, "push": ownStatus,
				"upload": 0},
			[]string{"### rye bundle push", "    error: "}, nil},
		{"", map[string]string{"release": "true", "push": "oci-layout:pushed"},
			map[string]int{"fetch": 0, "lock": 0, "verify": 0, "check": 0, "create": 0, "bundle": 0, "push": 0,
				"upload": 0},
			[]string{"### rye bundle push", "pushed acme@0.1.0"}, nil},
		{"recipe", map[string]string{"release": "true", "push": "oci://127.0.0.1:1/x"},
			map[string]int{"fetch": 0, "lock": 0, "verify": 0, "check": 0, "create": 2, "upload": 0},
			[]string{"### rye bundle create", "    error: ", "nonsense"}, nil},
		{"late", map[string]string{"release": "true", "push": "oci://127.0.0.1:1/x"},
			map[string]int{"fetch": 0, "lock": 0, "verify": 0, "check": 0, "create": 0, "bundle": 1, "upload": 0},
			[]string{"### rye bundle verify", "    error: "}, nil},
	} {
		t.Run(test.how, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, "github")
			p.breakIt(test.how)
			got := p.steps(test.inputs, func(name string) {
				if test.how == "late" && name == "create" {
					p.breakIt("damaged")
				}
			})
			if test.want["push"] == ownStatus {
				out, status := p.rye("bundle", "push", "acme", "oci://127.0.0.1:1/x/acme") // where no registry is
				if test.want["push"] = status; status == 0 {
					t.Error(out)
				}
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("exit statuses %v, want %v", got, test.want)
			}
			summary := p.read(p.runner, "summary.md")
			for _, line := range test.summary {
				if !strings.Contains(summary, line) {
					t.Errorf("the summary lacks %q:\n%s", line, summary)
				}
			}
			for step, rule := range test.results {
				var log struct {
					Runs []struct {
						Results []struct{ RuleID string }
					}
				}
				if err := json.Unmarshal([]byte(p.read(p.runner, "rye/"+step+".sarif")), &log); err != nil {
					t.Fatal(err)
				}
				if rs := log.Runs[0].Results; rule == "" && len(rs) > 0 || rule != "" &&
					(len(rs) == 0 || rs[0].RuleID != rule) {
					t.Errorf("%s: %v", step, rs)
				}
			}
			output := p.read(p.runner, "output")
			for _, step := range []string{"lock", "verify", "check"} {
				line, rest, _ := strings.Cut(output, "\n")
				if output = rest; line != map[int]string{0: "status=0", 1: "status=1"}[test.want[step]] {
					t.Errorf("the output of %s is %q", step, line)
				}
			}
		})
	}
}

// TestGitHubWorkflow: the workflow runs the action, and gives the key to releases alone.
func TestGitHubWorkflow(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, "github")
	var w struct {
		Jobs map[string]struct {
			Env   map[string]string
			Steps []struct {
				Uses string
				Env  map[string]string
			}
		}
	}
	p.yaml(".github/workflows/rye.yml", &w)
	job := w.Jobs["rye"]
	if len(job.Steps) != 2 || job.Steps[0].Uses != "actions/checkout@v4" ||
		job.Steps[1].Uses != "./.github/actions/rye" || job.Env["RYE_KEY"] != "" {
		t.Errorf("%+v", job)
	}
	for name, text := range job.Steps[1].Env {
		if !strings.HasPrefix(text, "${{ startsWith(github.ref, 'refs/tags/') && secrets."+name) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestGitLab: the job looks at everything, and fails with the worst exit status.
func TestGitLab(t *testing.T) {
	for how, want := range map[string]int{"": 0, "unlocked": 3, "damaged": 3, "invalid": 1, "recipe": 0} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, "gitlab")
			p.breakIt(how)
			jobs := map[string]struct {
				Before []string `yaml:"before_script"`
				Script []string
			}{}
			p.yaml(".gitlab/rye.yml", &jobs)
			before := jobs[".rye"].Before
			if len(before) != 2 || before[0] != `go install "github.com/rye-build/rye/cmd/rye@latest"` {
				t.Fatalf("%q", before)
			}
			out, status := p.bash("", nil, before[1]+"\n"+strings.Join(jobs["rye"].Script, "\n"))
			if status != want {
				t.Errorf("exit status %d\n%s", status, out)
			}
			summary := p.read(p.repo, "rye-reports/summary.md")
			if strings.Count(summary, "### rye ") != 3 || strings.Contains(summary, "failed") != (want != 0) {
				t.Errorf("%s", summary)
			}
			for _, name := range []string{"lock", "verify", "check"} {
				if !json.Valid([]byte(p.read(p.repo, "rye-reports/"+name+".sarif"))) {
					t.Errorf("%s.sarif", name)
				}
			}
			out, status = p.bash("", nil, before[1]+"\n"+strings.Join(jobs["rye-release"].Script, "\n"))
			if fail := how != "" && how != "unlocked"; fail != (status != 0) {
				t.Errorf("release: %d\n%s", status, out)
			}
		})
	}
}

// TestPreCommit: each hook's entry runs as pre-commit runs it, with the names of changed files only where it passes
// them.
func TestPreCommit(t *testing.T) {
	for how, want := range map[string][]int{"": {0, 0, 0}, "unlocked": {1, 0, 0}, "damaged": {1, 1, 0},
		"invalid": {0, 1, 1}} { // a draft
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := newPipeline(t, "pre-commit")
			p.breakIt(how)
			var config struct {
				Repos []struct {
					Repo  string
					Hooks []struct {
						ID, Entry, Language, Files string
						Pass                       *bool `yaml:"pass_filenames"`
					}
				}
			}
			p.yaml(".pre-commit-config.yaml", &config)
			if len(config.Repos) != 1 || config.Repos[0].Repo != "local" || len(config.Repos[0].Hooks) != 3 {
				t.Fatalf("%+v", config)
			}
			for i, h := range config.Repos[0].Hooks {
				words := strings.Fields(strings.ReplaceAll(h.Entry, "'", ""))
				var names []string
				for _, name := range []string{"sub/.ai/tools/acme/run.py", "README.md", "sub/rye.lock",
					"other/.ai/x"} {
					if regexp.MustCompile(h.Files).MatchString(name) {
						names = append(names, name)
					}
				}
				if len(names) != 2 {
					t.Errorf("%s: %q", h.ID, names)
				}
				if h.Pass == nil || *h.Pass {
					words = append(words, names...)
				}
				if out, status := p.run("", nil, words[0], words[1:]...); status != want[i] || h.Language != "system" {
					t.Errorf("%s: %d\n%s", h.ID, status, out)
				}
			}
		})
	}
}
