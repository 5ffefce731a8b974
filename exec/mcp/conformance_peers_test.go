//go:build peers

package mcp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/rye-build/rye/exec/mcp"
	"github.com/rye-build/rye/exec/npmtest"
)

const suite = "@modelcontextprotocol/conformance@0.2.0-alpha.12"

// The tools, prompts and resources that the suite calls are those of the SDK's own reference server, whose program
// can't be imported. So TestConformance builds this package's tests again with the source of that program beside them,
// in which init sets these two.
var (
	referenceOptions func(*sdk.ServerOptions)
	extendReference  func(*sdk.Server)
)

const glue = `
func init() {
	referenceOptions = func(o *mcp.ServerOptions) {
		o.CompletionHandler, o.SubscribeHandler, o.UnsubscribeHandler = completionHandler, subscribeHandler, unsubscribeHandler
		o.Capabilities.Logging, o.Capabilities.Completions = &mcp.LoggingCapabilities{}, &mcp.CompletionCapabilities{}
	}
	extendReference = func(s *mcp.Server) {
		registerTools(s)
		registerResources(s)
		registerPrompts(s)
		go watchedResourceUpdater(context.Background(), s)
	}
}
`

// TestConformance: in the official suite, our server fails nowhere, and passes what the SDK's reference server passes.
func TestConformance(t *testing.T) {
	if extendReference == nil {
		withReference(t)
		return
	}
	s := serving(t)
	s.server = mcp.Extended(mcp.Options{Open: s.open, Project: s.p.Dir, State: filepath.Join(s.p.Home, "state"),
		Version: "test", Now: time.Now, Warn: s.warn},
		referenceOptions, extendReference)
	open := s.withoutToken(s.listen())
	program := filepath.Join(t.TempDir(), "reference")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program,
		"github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, revision := range []string{"2026-07-28", "2025-11-25"} {
		address := freeAddress(t)
		reference := exec.CommandContext(t.Context(), program, "-http", address)
		stderr, err := reference.StderrPipe()
		s.must(err, reference.Start())
		if line, err := bufio.NewReader(stderr).ReadString('\n'); err != nil || !strings.Contains(line, "listening") {
			t.Fatal(line, err)
		}
		want, _ := conform(t, "http://"+address, "--suite", "all", "--spec-version", revision)
		reference.Process.Kill()
		reference.Wait()
		got, said := conform(t, open+"/mcp", "--suite", "all", "--spec-version", revision)
		if len(want) < 20 {
			t.Errorf("%s: %d scenarios", revision, len(want))
		}
		bad := false
		for scenario, w := range want {
			if g, ok := got[scenario]; !ok || g.failed > 0 || g.passed < w.passed {
				t.Errorf("%s, %s: %d passed and %d failed, of the reference server %d and %d", revision, scenario,
					g.passed, g.failed, w.passed, w.failed)
				bad = true
			}
		}
		if bad {
			t.Log(said)
		}
	}
}

// TestSkillsConformance: in the scenarios of the official suite for the extension of skills, no check fails, warns or
// is left out.
func TestSkillsConformance(t *testing.T) {
	s := serving(t)
	s.putSkill("skills", "pdf-forms", forms)
	open := s.withoutToken(s.listen())
	for scenario, least := range map[string]int{"sep-2640-skills-enumeration": 30, "sep-2640-skills-manifest": 5,
		"sep-2640-skills-directory": 6} {
		// The scenario of an extension is in no revision, and so it has to be forced. A single one prints its checks.
		_, said := conform(t, open+"/mcp", "--scenario", scenario, "--spec-version", "2026-07-28", "--force",
			"--verbose")
		if passed, all := strings.Count(said, `"status": "SUCCESS"`), strings.Count(said,
			`"status": "`); passed < least || passed != all {
			t.Errorf("%s: %d of %d passed: %s", scenario, passed, all, said)
		}
	}
}

// withoutToken is the address of a server that adds a token to each request: the suite sends none.
func (s *served) withoutToken(l *listening) string {
	secret := l.secret("suite")
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+secret)
		l.http.ServeHTTP(w, r)
	}))
	s.t.Cleanup(open.Close)
	return open.URL
}

type outcome struct{ passed, failed int }

// conform runs the suite against a server.
func conform(t *testing.T, url string, arguments ...string) (map[string]outcome, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(npmtest.Bin(t), "node"),
		append([]string{filepath.Join(npmtest.Install(t, suite), "dist", "index.js"), "server", "--url", url,
			"--output-dir", t.TempDir()}, arguments...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run() // its status is 1 where a scenario fails
	all := map[string]outcome{}
	for _, m := range regexp.MustCompile(`(?m)^[✓✗] (\S+): (\d+) passed, (\d+) failed`).
		FindAllStringSubmatch(out.String(), -1) {
		passed, _ := strconv.Atoi(m[2])
		failed, _ := strconv.Atoi(m[3])
		all[m[1]] = outcome{passed, failed}
	}
	return all, out.String()
}

func freeAddress(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(nil)
	defer s.Close()
	return s.Listener.Addr().String()
}

// withReference runs this test with the source of the reference server.
func withReference(t *testing.T) {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/modelcontextprotocol/go-sdk").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "conformance", "everything-server",
		"main.go"))
	if err != nil {
		t.Fatal(err)
	}
	source = bytes.Replace(source, []byte("\npackage main\n"), []byte("\npackage mcp_test\n"), 1)
	source = append(bytes.Replace(source, []byte("\nfunc main() {"), []byte("\nfunc referenceMain() {"), 1), glue...)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	beside, list := filepath.Join(t.TempDir(), "reference_test.go"), filepath.Join(t.TempDir(), "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here,
		"reference_test.go"): beside}})
	if err != nil {
		t.Fatal(err)
	}
	for path, b := range map[string][]byte{beside: source, list: overlay} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-tags=peers,netgo,osusergo",
		"-overlay", list, "-run", "^TestConformance$", ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
