package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rye-build/rye/ai"
	aifind "github.com/rye-build/rye/ai/find"
	"github.com/rye-build/rye/ai/search"
	"github.com/rye-build/rye/ai/search/query"
	"github.com/rye-build/rye/bundle/find"
	"github.com/rye-build/rye/cas/fault"
	"github.com/rye-build/rye/cmd/rye/initcmd"
)

// newcomersQuestions has the page that must be among the first three that rye search finds.
var newcomersQuestions = map[string]string{
	"ollama":                              "providers",
	"how do I use a local model":          "providers",
	"which models can I use":              "providers",
	"openai api key":                      "providers",
	"claude":                              "mcp skills",
	"how do I allow a secret":             "secrets",
	"where do I put my api key":           "secrets providers",
	"password":                            "secrets keys",
	"environment variable":                "secrets runtimes exec commands",
	"how do I install a package":          "packages",
	"pip requirements":                    "packages",
	"npm":                                 "packages mcp-servers coming-from",
	"quickstart":                          "overview",
	"tutorial":                            "overview",
	"getting started":                     "overview",
	"how do I write a tool":               "tool-format",
	"write a prompt":                      "directive-format",
	"how to run an agent":                 "threads",
	"agent":                               "threads mcp overview",
	"undo a change":                       "vendoring lock",
	"revert":                              "vendoring lock",
	"which files do I commit":             "what-to-commit",
	".gitignore":                          "what-to-commit",
	"github actions":                      "ci automation",
	"cron":                                "automation",
	"schedule":                            "automation",
	"docker":                              "oci",
	"container registry":                  "oci",
	"publish":                             "registry release bundles",
	"share a tool with colleagues":        "bundles sources release",
	"upgrade a dependency":                "lock",
	"version conflict":                    "lock sources",
	"offline":                             "vendoring sources exec",
	"air gap":                             "oci vendoring",
	"how much did it cost":                "budgets",
	"limit spending":                      "budgets",
	"timeout":                             "resilience exec answers tool-format",
	"retry":                               "resilience hooks",
	"stop a running thread":               "operations",
	"resume":                              "operations threads",
	"who approves a call":                 "approvals",
	"human in the loop":                   "approvals",
	"lost my key":                         "keys policy release",
	"rotate a key":                        "keys release",
	"stolen key":                          "policy keys release",
	"how do I trust a colleague":          "policy keys signing",
	"clone":                               "vendoring what-to-commit",
	"sandbox network access":              "sandbox",
	"permission denied":                   "sandbox errors exec threads core-tools",
	"exit code":                           "errors exec",
	"what does LOCK_MISMATCH mean":        "errors",
	"APPROVAL_REQUIRED":                   "errors approvals",
	"disk full":                           "store threads",
	"free disk space":                     "store",
	"delete old threads":                  "transcripts",
	"mcp server":                          "mcp-servers mcp",
	"cursor":                              "mcp skills",
	"vscode":                              "mcp",
	"anthropic skill":                     "skills",
	"SKILL.md":                            "skills",
	"log of calls":                        "audit",
	"is it safe":                          "threat-model sandbox",
	"telemetry":                           "threat-model core-tools",
	"web server":                          "serve",
	"rest api":                            "serve",
	"python version":                      "runtimes lock",
	"javascript":                          "runtimes tool-format",
	"how do I add a language":             "runtimes",
	"linter":                              "lsp",
	"backup":                              "backup",
	"workflow":                            "graphs",
	"rag documents":                       "knowledge-format search-syntax",
	"configuration file":                  "spaces",
	"rename a tool":                       "items signing commands",
	"line endings crlf":                   "what-to-commit signing",
	"sbom":                                "bundles release",
	"package.json":                        "coming-from packages",
	"how do I make a tool read my files":  "tool-format sandbox starlark",
	"webassembly":                         "wasm",
	"the tool differs from the lock":      "lock exec",
	"test a directive without a model":    "transcripts directive-format",
	"how do I start an agent every night": "automation",
}

// TestNewcomersQuestions: rye search finds the page that answers what a newcomer asks in their own words.
func TestNewcomersQuestions(t *testing.T) {
	view, err := find.LibraryView(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	searcher := aifind.Searcher{View: view, Dir: t.TempDir(), Version: "test",
		Name: func(_ *ai.Space, path string) string { return path }}
	for question, pages := range newcomersQuestions {
		parsed, err := query.Parse(question)
		if err != nil {
			t.Errorf("%q: %v", question, err)
			continue
		}
		found, err := searcher.Search(t.Context(), search.Request{Query: parsed, Limit: 3})
		if err != nil {
			t.Fatal(err)
		}
		var hits []string
		for i := range found.Results {
			hits = append(hits, strings.TrimPrefix(found.Results[i].Ref, "knowledge:rye/"))
		}
		if !slices.ContainsFunc(strings.Fields(pages), func(page string) bool { return slices.Contains(hits, page) }) {
			t.Errorf("%q finds %q, want %q", question, hits, pages)
		}
	}
}

// TestCodesExplained: the page about errors explains every code that rye can end with.
func TestCodesExplained(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := topics[slices.IndexFunc(topics, func(it *ai.Item) bool { return it.ID == "rye/errors" })].Model.Body
	for _, line := range fault.Table() {
		if !strings.Contains(page, "`"+string(line.Code)+"`") {
			t.Errorf("%s is missing: %s, exit status %d", line.Code, line.Help, line.Exit)
		}
	}
}

// TestOverview: the page that newcomers read first fits on a screen and a half, and names every part of rye.
func TestOverview(t *testing.T) {
	topics, err := initcmd.DocTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := topics[slices.IndexFunc(topics, func(it *ai.Item) bool { return it.ID == "rye/overview" })].Model.Body
	lines := strings.Split(strings.TrimSpace(page), "\n")
	if len(lines) > 60 {
		t.Errorf("%d lines, want at most 60", len(lines))
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > 80 {
			t.Errorf("line %d has %d columns, want at most 80", i+1, n)
		}
	}
	for _, part := range []string{"NAME", "VOUCH", "PICK", "RUN", "rye exec", "rye run", "rye thread", "rye mcp serve",
		"rye serve", "rye mcp add", "rye bundle", "rye trust", "rye audit", "rye lock", "rye demo"} {
		if !strings.Contains(page, part) {
			t.Errorf("no word of %s", part)
		}
	}
}
