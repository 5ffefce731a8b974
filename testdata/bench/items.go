package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// makeItems writes a project of n items: every second a tool, the others directives and knowledge. The file tree is
// what people write by hand, so that reading, checking and searching it is what it would be for theirs.
func makeItems(dir string, words []string, n int) error {
	w := newWriter(6)
	var b []byte
	made := map[string]bool{}
	sub := ""
	for i := range n {
		if i%50 == 0 {
			sub = fmt.Sprintf("acme/%s-%d", w.word(words), i/50)
		}
		name := fmt.Sprintf("%s_%d", w.word(words), i)
		kind, ext, mode := "tools", ".py", os.FileMode(0o644)
		switch i % 8 {
		case 0, 2, 4:
			b = w.pythonTool(words, b[:0], sub)
		case 6:
			ext, b = ".yaml", w.yamlTool(words, b[:0], sub)
		case 1, 5:
			kind, ext, b = "directives", ".md", w.directive(words, b[:0], name, sub)
		default:
			kind, ext, b = "knowledge", ".md", w.entry(words, b[:0], name, sub)
		}
		d := filepath.Join(dir, ".ai", kind, filepath.FromSlash(sub))
		if !made[d] {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
			made[d] = true
		}
		if err := keep(filepath.Join(d, name+ext), b, mode, past); err != nil {
			return err
		}
	}
	return nil
}

func (w writer) sentence(words []string, n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = w.word(words)
	}
	return strings.Join(s, " ")
}

func (w writer) pythonTool(words []string, b []byte, category string) []byte {
	b = fmt.Appendf(b, "\"\"\"%s.\"\"\"\n\n__version__ = \"1.%d.%d\"\n__tool_type__ = \"python\"\n",
		w.sentence(words, 6), w.below(20), w.below(20))
	b = fmt.Appendf(b,
		"__executor_id__ = \"rye/core/runtimes/python_function_runtime\"\n__category__ = %q\n__tool_description__ = (\n    %q\n    %q\n)\n\n",
		category, w.sentence(words, 5)+" ", w.sentence(words, 4))
	b = append(b, "CONFIG_SCHEMA = {\n    \"type\": \"object\",\n    \"properties\": {\n"...)
	for range 2 + w.below(4) {
		b = fmt.Appendf(b, "        \"%s_%d\": {\"type\": \"string\", \"description\": %q},\n", w.word(words),
			w.below(100), w.sentence(words, 5))
	}
	b = append(b, "    },\n}\n\n\ndef execute(params, project_path):\n"...)
	for range 10 + w.below(30) {
		b = fmt.Appendf(b, "    %s = params.get(%q)  # %s\n", w.word(words), w.word(words), w.sentence(words, 4))
	}
	return append(b, "    return {\"success\": True}\n"...)
}

func (w writer) yamlTool(words []string, b []byte, category string) []byte {
	b = fmt.Appendf(b,
		"version: \"1.%d.0\"\ntool_type: script\nexecutor_id: rye/core/primitives/subprocess\ncategory: %s\ndescription: %s\n",
		w.below(20), category, w.sentence(words, 6))
	b = append(b, "config:\n  command: printf\n  args:\n"...)
	for range 3 + w.below(12) {
		b = fmt.Appendf(b, "    - %q\n", w.sentence(words, 3))
	}
	return b
}

func (w writer) directive(words []string, b []byte, name, category string) []byte {
	b = fmt.Appendf(b,
		"# %s\n\n```xml\n<directive name=%q version=\"1.%d.0\">\n  <metadata>\n    <description>%s</description>\n    <category>%s</category>\n    <author>acme</author>\n",
		w.sentence(words, 3), name, w.below(20), w.sentence(words, 8), category)
	turns, tokens, tool := 1+w.below(20), 1024+w.below(4096), w.word(words)
	if tool == "con" { // on Windows that is a device, and no item may be called so
		tool = "cone"
	}
	b = fmt.Appendf(b,
		"    <limits max_turns=\"%d\" max_tokens=\"%d\"/>\n    <permissions>\n      <execute><tool>acme.%s</tool></execute>\n    </permissions>\n  </metadata>\n  <inputs>\n",
		turns, tokens, tool)
	for i := range 1 + w.below(3) {
		b = fmt.Appendf(b, "    <input name=\"%s_%d\" type=\"string\" required=\"true\">%s</input>\n", w.word(words),
			i, w.sentence(words, 5))
	}
	b = append(b, "  </inputs>\n</directive>\n```\n\n"...)
	return w.prose(words, b, 10+w.below(20))
}

func (w writer) entry(words []string, b []byte, name, category string) []byte {
	b = fmt.Appendf(b,
		"```yaml\nid: %s\ntitle: %s\nversion: \"1.0.%d\"\nentry_type: reference\ncategory: %s\ntags: [%s, %s]\n```\n\n",
		name, w.sentence(words, 3), w.below(20), category, w.word(words), w.word(words))
	return w.prose(words, b, 15+w.below(40))
}

func (w writer) prose(words []string, b []byte, lines int) []byte {
	for range lines {
		b = append(append(b, w.sentence(words, 12)...), ".\n"...)
	}
	return b
}

// itemJobs compares what rye does with a project of 10,000 items with what does the least of it: b3sum reads and
// hashes the files, grep looks for one word in them, ed25519 makes or checks as many signatures on both cores, and git
// status asks for the state of each file. With ".100000" it is ten times as many items, beside the tenth of them.
func (b *bench) itemJobs(ctx context.Context, what string) ([]job, error) {
	if verb, _, many := strings.Cut(what, ".100000"); many {
		all, tenth := "I100000", "I10000"
		if b.quick {
			all, tenth = "I1000", "I100"
		}
		j, err := b.itemJob(ctx, verb, all)
		if err != nil {
			return nil, err
		}
		part, err := b.itemJob(ctx, verb, tenth)
		part.tool = "tenth"
		return []job{j, part}, err
	}
	j, err := b.itemJob(ctx, what, "I")
	if err != nil {
		return nil, err
	}
	src := filepath.Join(b.corpora, "I")
	_, n := usage(src)
	peer := func(name string, c command) job { return job{tool: name, run: []command{c}} }
	bare := func(verb string) job { return peer("ed25519", cmd(b.self, "-ed25519", verb, "-count", fmt.Sprint(n))) }
	hash := peer("b3sum", cmd("sh", "-c", "find .ai -type f -print0 | xargs -0 -P 2 -n 2500 b3sum").in(src))
	if j.cold != nil {
		hash.cold = []string{src}
	}
	switch verb, _, _ := strings.Cut(what, "-"); verb {
	case "check":
		return []job{j, hash}, nil
	case "search":
		return []job{j, peer("grep", cmd("grep", "-rl", searchedWord(), ".ai").in(src))}, nil
	case "verify":
		return []job{j, bare("verify"), hash}, nil
	}
	if what == "sign-again" {
		return []job{j, bare("verify"), statusJob(src, filepath.Join(b.dir, "items-git"))}, nil
	}
	return []job{j, bare("sign")}, nil
}

// searchedWord is a word that many items have.
func searchedWord() string { return newWriter(7).word(vocabulary()) }

// itemJob does something with the items of a corpus.
func (b *bench) itemJob(ctx context.Context, what, corpus string) (job, error) {
	if err := b.corpus(ctx, corpus); err != nil {
		return job{}, err
	}
	at := filepath.Join(b.dir, "items-"+what+"-"+corpus)
	home, project := at+"-home", at+"-project"
	rye := func(args ...string) command {
		c := cmd(append([]string{b.rye}, args...)...).in(project)
		return c.with("HOME="+home, "XDG_CACHE_HOME="+filepath.Join(home, "cache"),
			"XDG_STATE_HOME="+filepath.Join(home, "state"), "XDG_DATA_HOME="+filepath.Join(home, "data"))
	}
	once := []command{cmd("mkdir", home), cmd("cp", "-a", filepath.Join(b.corpora, corpus), project),
		rye("key", "new")}
	j := job{tool: "rye", onceFresh: []string{home, project}}
	sign, search := rye("sign", "--all", "-q"), rye("search", searchedWord(), "--limit", "10")
	// A file's times are trusted when they are no longer those of this moment.
	settle := cmd("sleep", "3")
	signed := append(once, sign, settle)
	if strings.HasSuffix(what, "-cold") && what != "search-cold" {
		j.cold = []string{project}
	}
	switch what {
	case "check", "check-cold":
		j.once, j.run = signed, []command{rye("check", "-q")}
	case "search":
		j.once, j.run = append(once, settle, search), []command{search}
	case "search-cold":
		j.once, j.fresh, j.run = append(once, settle), []string{filepath.Join(home, "cache")}, []command{search}
	case "sign":
		j.onceFresh, j.fresh, j.before, j.run = nil, j.onceFresh, once, []command{sign}
	case "sign-again":
		j.once, j.run = signed, []command{sign}
	case "verify", "verify-cold":
		j.once, j.run = signed, []command{rye("verify", "**", "-q")}
	case "lock-check":
		check := rye("lock", "--check", "-q")
		j.once, j.run = append(signed, rye("lock", "-q"), settle, check, check), []command{check}
	default:
		return j, fmt.Errorf("nothing is measured as %q", what)
	}
	return j, nil
}

// bareEd25519 makes or checks n signatures of 100 bytes on all cores: what signing and verifying n items costs at the
// least.
func bareEd25519(verb string, n int) error {
	if verb != "sign" && verb != "verify" {
		return fmt.Errorf("%q is neither sign nor verify", verb)
	}
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public, message := private.Public().(ed25519.PublicKey), make([]byte, 100)
	good := ed25519.Sign(private, message)
	var all sync.WaitGroup
	cores := runtime.GOMAXPROCS(0)
	for core := range cores {
		all.Go(func() {
			for i := core; i < n; i += cores {
				if verb == "sign" {
					ed25519.Sign(private, message)
				} else if !ed25519.Verify(public, message, good) {
					panic("a signature of ours doesn't hold")
				}
			}
		})
	}
	all.Wait()
	return nil
}
