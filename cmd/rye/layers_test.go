package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
)

const module = "github.com/rye-build/rye"

// TestLayers holds the tree to testdata/layers.txt.
func TestLayers(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	for _, complaint := range checkTree(os.DirFS("../..")) {
		t.Error(complaint)
	}
}

// TestLayersPlanted plants one violation each and wants exactly the complaint about it.
func TestLayersPlanted(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing at a time, many times over")
	}
	archive, err := txtar.ParseFile("testdata/planted.txtar")
	if err != nil {
		t.Fatal(err)
	}
	// The files before the first "case" are the sound tree that each case changes.
	sound := fstest.MapFS{}
	type plant struct {
		name, want string
		files      []txtar.File
	}
	var plants []plant
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, "case "); ok {
			plants = append(plants, plant{name: name, want: strings.TrimSpace(string(f.Data))})
		} else if len(plants) == 0 {
			sound[f.Name] = &fstest.MapFile{Data: f.Data}
		} else {
			last := &plants[len(plants)-1]
			last.files = append(last.files, f)
		}
	}
	if got := checkTree(sound); len(got) > 0 {
		t.Fatalf("the sound tree: %q", got)
	}
	if len(plants) < 20 {
		t.Fatalf("only %d cases", len(plants))
	}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for name, f := range sound {
				tree[name] = f
			}
			for _, f := range p.files {
				tree[f.Name] = &fstest.MapFile{Data: f.Data}
				if len(bytes.TrimSpace(f.Data)) == 0 {
					delete(tree, f.Name)
				}
			}
			if got := strings.Join(checkTree(tree), "\n"); got != p.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, p.want)
			}
		})
	}
}

// rules is layers.txt, parsed.
type rules struct {
	left   map[string][]string // package → packages it may import
	rooms  []string
	suites []string
	only   map[string]onlyRule
	calls  map[string][]string // os.Exit → files
	root   []string
	names  []string
	lines  int
	// Packages: the most lines that one has, and those that have more, with how many.
	packages int
	larger   map[string]int
	// Words of a style that is given up, and how often each room still has them.
	stilted *regexp.Regexp
	remain  map[string]int
	never   []string
	unknown []string
}

type onlyRule struct{ code, tests []string }

func parseRules(text string) rules {
	r := rules{left: map[string][]string{}, only: map[string]onlyRule{}, calls: map[string][]string{},
		larger: map[string]int{}, remain: map[string]int{}}
	text = strings.ReplaceAll(text, "\n ", " ")
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		args := words[1:]
		switch words[0] {
		case "rooms":
			for _, w := range args {
				if w != "<" {
					r.rooms = append(r.rooms, w)
				}
			}
		case "inside":
			r.inside(args)
		case "suite":
			r.suites = append(r.suites, args...)
		case "only":
			code, tests := args[1:], []string(nil)
			if i := slices.Index(code, "tests"); i >= 0 {
				code, tests = code[:i], code[i+1:]
			}
			r.only[args[0]] = onlyRule{code, tests}
		case "calls":
			i := slices.IndexFunc(args, func(w string) bool { return strings.Contains(w, "/") })
			if i < 0 {
				i = len(args)
			}
			for _, name := range args[:i] {
				r.calls[name] = args[i:]
			}
		case "folders", "files", "local":
			r.root = append(r.root, args...)
		case "names":
			r.names = append(r.names, args...)
		case "lines":
			r.lines, _ = strconv.Atoi(args[0])
		case "packages":
			r.packages, _ = strconv.Atoi(args[0])
		case "larger":
			numbers(r.larger, args)
		case "stilted":
			r.stilted = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(strings.Join(args, "|"), "_", " ") + `)\b`)
		case "remain":
			numbers(r.remain, args)
		case "never":
			r.never = append(r.never, args...)
		default:
			r.unknown = append(r.unknown, words[0])
		}
	}
	return r
}

// numbers reads pairs of a name and a number.
func numbers(to map[string]int, words []string) {
	for pair := range slices.Chunk(words, 2) {
		to[pair[0]], _ = strconv.Atoi(pair[len(pair)-1])
	}
}

// inside adds one chain of packages; what is left of a package in any chain is what it may import.
func (r *rules) inside(words []string) {
	var before, group []string
	for _, w := range append(words, "<") {
		if w != "<" {
			group = append(group, w)
			continue
		}
		for _, p := range group {
			for _, b := range before {
				r.left[p] = append(append(r.left[p], b), r.left[b]...)
			}
			slices.Sort(r.left[p])
			r.left[p] = slices.Compact(r.left[p]) // several lines lead to most of them
		}
		before = append(before, group...)
		group = nil
	}
}

// mayImport reports whether package from may import package to, both relative to the module.
func (r *rules) mayImport(from, to string) bool {
	room := func(p string) int { return slices.Index(r.rooms, strings.Split(p, "/")[0]) }
	if room(from) != room(to) {
		return room(to) < room(from)
	}
	return slices.Contains(r.left[from], to)
}

// A checker collects complaints about a tree.
type checker struct {
	rules
	fsys fs.FS
	docs map[string][]string // package directory → files with a package comment
	size map[string]int      // package directory → lines, without tests and what is generated
	old  map[string]int      // room → stilted words
	all  []string
}

func (c *checker) complain(format string, args ...any) {
	c.all = append(c.all, fmt.Sprintf(format, args...))
}

// checkTree returns everything in a tree that layers.txt in it doesn't allow.
func checkTree(fsys fs.FS) []string {
	text, err := fs.ReadFile(fsys, "testdata/layers.txt")
	if err != nil {
		return []string{err.Error()}
	}
	c := &checker{rules: parseRules(string(text)), fsys: fsys, docs: map[string][]string{}, size: map[string]int{},
		old: map[string]int{}}
	for _, word := range c.unknown {
		c.complain("testdata/layers.txt: no rule is called %q", word)
	}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range entries {
		if !slices.ContainsFunc(c.root, func(p string) bool { ok, _ := path.Match(p, e.Name()); return ok }) {
			c.complain("%s: the root holds no such thing", e.Name())
		}
	}
	if err := fs.WalkDir(fsys, ".", c.visit); err != nil {
		c.complain("%v", err)
	}
	for dir, files := range c.docs {
		if len(files) != 1 {
			c.complain("%s: %d package comments, want one %v", dir, len(files), files)
		}
	}
	for dir, n := range c.size {
		c.falls("lines", dir, n, c.packages, c.larger, c.packages/40)
	}
	for _, room := range c.rooms {
		c.falls("stilted words", room, c.old[room], 0, c.remain, stiltedSlack)
	}
	slices.Sort(c.all)
	return c.all
}

// stiltedSlack is how far the count of a room may fall before layers.txt has to say so: not each edit changes that
// file.
const stiltedSlack = 20

// falls holds a number to a limit, or to that of its exception, which must not be more than slack above the truth: so
// that an exception can only fall.
func (c *checker) falls(what, where string, n, most int, exceptions map[string]int, slack int) {
	allowed, excepted := exceptions[where]
	switch {
	case !excepted && n > most:
		c.complain("%s: %d %s, at most %d", where, n, what, most)
	case excepted && n > allowed:
		c.complain("%s: %d %s, at most %d, which may only fall", where, n, what, allowed)
	case excepted && (n <= most || n < allowed-slack):
		c.complain("%s: %d %s: testdata/layers.txt still allows %d", where, n, what, allowed)
	}
}

func (c *checker) visit(name string, d fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if d.IsDir() {
		// The roots' own local folders hold nothing of ours.
		if base := d.Name(); base == ".git" || name == "dist" || name == "coverage" {
			return fs.SkipDir
		}
		return nil
	}
	if !isOurs(name) {
		return nil
	}
	text, err := fs.ReadFile(c.fsys, name)
	if err != nil {
		return err
	}
	if name != "testdata/layers.txt" {
		c.words(name, text)
	}
	if path.Base(name) == "mutants.txt" {
		c.mutants(name, string(text))
	}
	if room, _, _ := strings.Cut(name, "/"); c.stilted != nil && slices.Contains(c.rooms, room) {
		c.old[room] += len(c.stilted.FindAllIndex(text, -1))
	}
	inTestdata := strings.HasPrefix(name, "testdata/") || strings.Contains(name, "/testdata/") ||
		strings.HasPrefix(name, ".")
	if path.Ext(name) == ".go" && !inTestdata {
		c.source(name, text)
	}
	return nil
}

// isOurs reports whether a file holds text that we write.
func isOurs(name string) bool {
	exts := []string{".go", ".md", ".txt", ".txtar", ".yaml", ".yml", ".sh", ".bash", ".zsh", ".fish", ".mod"}
	return slices.Contains(exts, path.Ext(name)) || path.Base(name) == "justfile" || name == ".ci/run"
}

func (c *checker) words(name string, text []byte) {
	for _, word := range c.never {
		pattern := regexp.QuoteMeta(word)
		if !strings.Contains(word, "/") {
			pattern = `\b` + pattern + `\b`
		}
		if at := regexp.MustCompile(pattern).FindIndex(text); at != nil {
			c.complain("%s:%d: %q", name, 1+bytes.Count(text[:at[0]], []byte("\n")), word)
		}
	}
}

// mutants wants the text that each planted fault replaces to be found once: see testdata/mutants.
func (c *checker) mutants(name, list string) {
	var file string
	for line := range strings.Lines(list) {
		from, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok && path.Ext(strings.TrimSpace(line)) == ".go" {
			file = path.Join(path.Dir(path.Dir(name)), strings.TrimSpace(line))
		}
		if text, _ := fs.ReadFile(c.fsys, file); ok && bytes.Count(text, []byte(from)) != 1 {
			c.complain("%s: %s has %q not once", name, file, from)
		}
	}
}

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func (c *checker) source(name string, text []byte) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		c.complain("%v", err)
		return
	}
	dir, test := path.Dir(name), strings.HasSuffix(name, "_test.go")
	if n := bytes.Count(text, []byte("\n")); !generated.Match(text) {
		if n > c.lines {
			c.complain("%s: %d lines, at most %d", name, n, c.lines)
		}
		if !test {
			c.size[dir] += n
		}
	}
	if _, ok := c.left[dir]; !ok {
		c.complain("%s: package %q isn't in testdata/layers.txt", name, dir)
	}
	if slices.Contains(c.names, strings.TrimSuffix(f.Name.Name, "_test")) {
		c.complain("%s: a package called %q says nothing", name, f.Name.Name)
	}
	if c.docs[dir] == nil {
		c.docs[dir] = []string{}
	}
	if f.Doc != nil {
		c.docs[dir] = append(c.docs[dir], path.Base(name))
	}
	for _, spec := range f.Imports {
		c.imported(name, dir, test, spec)
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				c.complain("%s: func init: wiring happens in cmd/rye, once", name)
			}
			c.comment(name, set, d.Doc, d.Name)
		case *ast.GenDecl:
			if len(d.Specs) > 1 { // a comment may be the heading of several
				break
			}
			switch s := d.Specs[0].(type) {
			case *ast.TypeSpec:
				c.comment(name, set, d.Doc, s.Name)
			case *ast.ValueSpec:
				c.comment(name, set, d.Doc, s.Names...)
			}
		}
	}
	if !test {
		c.called(name, f)
	}
}

// comment wants a comment to begin with a name that it stands over, perhaps after an article.
func (c *checker) comment(name string, set *token.FileSet, doc *ast.CommentGroup, over ...*ast.Ident) {
	words := strings.FieldsFunc(doc.Text(), func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if !strings.HasSuffix(name, "_test.go") && len(words) > 0 && !slices.ContainsFunc(over, func(n *ast.Ident) bool {
		return n.Name == words[0]
	}) {
		c.complain("%s:%d: the comment of %s begins with %q", name, set.Position(doc.Pos()).Line, over[0].Name,
			words[0])
	}
}

func (c *checker) imported(name, dir string, test bool, spec *ast.ImportSpec) {
	what, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		c.complain("%s: %v", name, err)
		return
	}
	if spec.Name != nil && spec.Name.Name == "_" && what != "embed" {
		c.complain("%s: blank import of %q: nothing registers itself", name, what)
	}
	if ours, ok := strings.CutPrefix(what, module+"/"); ok {
		switch suite := slices.Contains(c.suites, ours); {
		case suite && !test && !slices.Contains(c.suites, dir):
			c.complain("%s: imports %q, which is for tests", name, ours)
		case ours == dir, suite, c.mayImport(dir, ours):
		default:
			c.complain("%s: %q doesn't stand left of %q", name, ours, dir)
		}
		return
	}
	for p := what; p != "."; p = path.Dir(p) {
		rule, ok := c.only[p]
		if !ok {
			continue
		}
		if !slices.Contains(rule.code, dir) && !(test && slices.Contains(rule.tests, dir)) {
			c.complain("%s: %q may not import %q", name, dir, what)
		}
		return
	}
	if first, _, _ := strings.Cut(what, "/"); strings.Contains(first, ".") {
		c.complain("%s: %q isn't in testdata/layers.txt", name, what)
	}
}

// called finds selectors such as os.Exit on a package's name.
func (c *checker) called(name string, f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok {
			what := pkg.Name + "." + sel.Sel.Name
			if files, ok := c.calls[what]; ok && !slices.Contains(files, name) {
				c.complain("%s: names %s", name, what)
			}
		}
		return true
	})
}
