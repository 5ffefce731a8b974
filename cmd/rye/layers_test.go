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
	"unicode/utf8"

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
	rooms    []string
	row      map[string]int // package → the line of its room in which it stands
	suites   []string
	only     map[string]onlyRule
	unlinked map[string][]string // program → packages that it doesn't link
	calls    map[string][]string // os.Exit → files
	root     []string
	names    []string
	lines    int
	columns  int
	stilted  *regexp.Regexp // words of a style that was given up
	never    []string
	unknown  []string

	// While it is read: the rule, what it is about, the lines of rooms so far, and whether test files follow.
	rule, about string
	rows        int
	inTests     bool
}

type onlyRule struct{ code, tests []string }

func parseRules(text string) rules {
	r := rules{row: map[string]int{}, only: map[string]onlyRule{}, calls: map[string][]string{},
		unlinked: map[string][]string{}}
	for rule := range strings.SplitSeq(regexp.MustCompile(`(?m) *#.*$`).ReplaceAllString(text, ""), "\n") {
		r.line(rule)
	}
	return r
}

// line reads a line: one that begins with spaces goes on with the rule above it.
func (r *rules) line(text string) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return
	}
	if !strings.HasPrefix(text, " ") {
		r.rule, words = words[0], words[1:]
		switch r.rule {
		case "room":
			r.rooms = append(r.rooms, words[0])
			return // a question follows
		case "only":
			r.about, words, r.inTests = words[0], words[1:], false
			r.only[r.about] = onlyRule{}
		case "unlinked":
			r.about, words = words[0], words[1:]
		}
	}
	switch r.rule {
	case "room":
		r.rows++
		for _, name := range words {
			r.row[path.Join(r.rooms[len(r.rooms)-1], name)] = r.rows
		}
	case "suite":
		r.suites = append(r.suites, words...)
	case "only":
		r.importers(words)
	case "unlinked":
		r.unlinked[r.about] = append(r.unlinked[r.about], words...)
	case "calls":
		i := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "/") })
		if i < 0 {
			i = len(words)
		}
		for _, name := range words[:i] {
			r.calls[name] = words[i:]
		}
	case "folders", "files", "local":
		r.root = append(r.root, words...)
	case "names":
		r.names = append(r.names, words...)
	case "lines":
		r.lines, _ = strconv.Atoi(words[0])
	case "columns":
		r.columns, _ = strconv.Atoi(words[0])
	case "stilted":
		r.stilted = regexp.MustCompile(`(?i)\b(` + strings.ReplaceAll(strings.Join(words, "|"), "_", " ") + `)\b`)
	case "never":
		r.never = append(r.never, words...)
	default:
		r.unknown = append(r.unknown, r.rule)
	}
}

// importers adds packages to the rule about what they may import.
func (r *rules) importers(words []string) {
	rule := r.only[r.about]
	for _, w := range words {
		switch {
		case w == "tests":
			r.inTests = true
		case r.inTests:
			rule.tests = append(rule.tests, w)
		default:
			rule.code = append(rule.code, w)
		}
	}
	r.only[r.about] = rule
}

// mayImport reports whether package from may import package to, both relative to the module.
func (r *rules) mayImport(from, to string) bool {
	room := func(p string) int { return slices.Index(r.rooms, strings.Split(p, "/")[0]) }
	if room(from) != room(to) {
		return room(to) < room(from)
	}
	return r.row[to] < r.row[from]
}

// A checker collects complaints about a tree.
type checker struct {
	rules
	fsys    fs.FS
	docs    map[string][]string // package directory → files with a package comment
	imports map[string][]string // package directory → what its files import, those of tests left out
	all     []string
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
	c := &checker{rules: parseRules(string(text)), fsys: fsys, docs: map[string][]string{},
		imports: map[string][]string{}}
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
	for program := range c.unlinked {
		c.links(program)
	}
	for dir, files := range c.docs {
		if len(files) != 1 {
			c.complain("%s: %d package comments, want one %v", dir, len(files), files)
		}
	}
	slices.Sort(c.all)
	return c.all
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
		for _, at := range c.stilted.FindAllIndex(text, -1) {
			c.complain("%s:%d: %q is a word of a style that we gave up", name, lineOf(text, at[0]), text[at[0]:at[1]])
		}
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

// lineOf is the number of the line that has an offset.
func lineOf(text []byte, offset int) int { return 1 + bytes.Count(text[:offset], []byte("\n")) }

func (c *checker) words(name string, text []byte) {
	for _, word := range c.never {
		pattern := regexp.QuoteMeta(word)
		if !strings.Contains(word, "/") {
			pattern = `\b` + pattern + `\b`
		}
		if at := regexp.MustCompile(pattern).FindIndex(text); at != nil {
			c.complain("%s:%d: %q", name, lineOf(text, at[0]), word)
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
		c.width(name, set, f, text)
	}
	if _, ok := c.row[dir]; !ok {
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

// unbroken is what may stand before a string that is alone on its line: its name or key, or what returns or opens it.
var unbroken = regexp.MustCompile(`^\s*((const )?\w+ *:?= *|return |\{|[\w."/-]+: *)?$`)

// example is a line of a comment that shows a line of a document, which has no line breaks either.
var example = regexp.MustCompile(`^\t*//\t *(["{[]|(#|//|<!--|--) rye:)`)

// width wants lines that end before a column. What no line break can shorten is exempt: a string that is alone on its
// line or behind its name, the tag of a field, what a string of several lines contains, a comment that is one word,
// and the example of a document's line.
func (c *checker) width(name string, set *token.FileSet, f *ast.File, text []byte) {
	lines := bytes.Split(text, []byte("\n"))
	inString := map[int]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if field, ok := n.(*ast.Field); ok && field.Tag != nil {
			inString[set.Position(field.Tag.Pos()).Line] = true
		}
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			from, to := set.Position(lit.Pos()), set.Position(lit.End())
			alone := unbroken.Match(lines[from.Line-1][:from.Column-1])
			for line := from.Line; line <= to.Line; line++ {
				inString[line] = inString[line] || alone || from.Line < to.Line
			}
		}
		return true
	})
	for i, line := range lines {
		wide := utf8.RuneCount(bytes.ReplaceAll(line, []byte("\t"), []byte("    "))) >= c.columns
		word := bytes.TrimLeft(line, "\t /#")
		if wide && !inString[i+1] && bytes.ContainsAny(word, " \t") && !example.Match(line) {
			c.complain("%s:%d: reaches column %d", name, i+1, c.columns)
		}
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

// links wants that a program doesn't link certain packages, through however many of ours.
func (c *checker) links(program string) {
	seen := map[string]bool{program: true}
	for todo := []string{program}; len(todo) > 0; todo = todo[1:] {
		for _, what := range c.imports[todo[0]] {
			if ours, ok := strings.CutPrefix(what, module+"/"); ok && !seen[ours] {
				seen[ours] = true
				todo = append(todo, ours)
			}
			for _, never := range c.unlinked[program] {
				if what == never || strings.HasPrefix(what, never+"/") {
					c.complain("%s: links %q, through %s", program, what, todo[0])
				}
			}
		}
	}
}

func (c *checker) imported(name, dir string, test bool, spec *ast.ImportSpec) {
	what, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		c.complain("%s: %v", name, err)
		return
	}
	if !test {
		c.imports[dir] = append(c.imports[dir], what)
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
