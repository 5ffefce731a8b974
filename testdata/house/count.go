package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A house is what was counted.
type house struct {
	module    string
	lines     int
	files     []int // lines of each
	functions []int
	comments  int
	written   int // lines that aren't blank
	inits     int
	faults    int
	packages  map[string]*pkg // by directory

	wide, wideTests map[int]int // lines of more than so many columns
	verbs, commits  int
}

type pkg struct {
	lines                    int
	command, commented, test bool
	importers                map[string]bool
}

// count counts a tree.
func count(tree fs.FS) (*house, error) {
	h := &house{packages: map[string]*pkg{}, wide: map[int]int{}, wideTests: map[int]int{}}
	mod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			h.module = strings.TrimSpace(name)
		}
	}
	tests := map[string]bool{}
	imports := map[string][]string{} // the directories that a directory's product imports
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && unseen(base):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			tests[path.Dir(name)] = true
			columns(h.wideTests, text)
			return nil
		}
		return h.product(name, text, imports)
	})
	for from, all := range imports {
		for _, to := range all {
			if p := h.packages[to]; p != nil && to != from {
				p.importers[from] = true
			}
		}
	}
	for dir, p := range h.packages {
		p.test = tests[dir]
	}
	return h, err
}

// unseen reports whether the go command passes over directories of a name.
func unseen(base string) bool {
	return base == "testdata" || base == "vendor" || strings.ContainsAny(base[:1], "._")
}

// product counts a file that is no test.
func (h *house) product(name string, text []byte, imports map[string][]string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(name)
	p := h.packages[dir]
	if p == nil {
		p = &pkg{importers: map[string]bool{}}
		h.packages[dir] = p
	}
	p.command = file.Name.Name == "main"
	p.commented = p.commented || file.Doc != nil
	faults := "" // what the file calls the package fault
	for _, spec := range file.Imports {
		at, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if rest, ok := strings.CutPrefix(at, h.module+"/"); ok {
			imports[dir] = append(imports[dir], rest)
		}
		if path.Base(at) == "fault" {
			faults = "fault"
			if spec.Name != nil {
				faults = spec.Name.Name
			}
		}
	}
	if ast.IsGenerated(file) {
		return nil
	}
	lines := bytes.Count(text, []byte("\n"))
	h.lines += lines
	p.lines += lines
	h.files = append(h.files, lines)
	comments, code := kinds(text)
	h.comments += comments
	h.written += comments + code
	columns(h.wide, text)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				h.functions = append(h.functions, set.Position(n.End()).Line-set.Position(n.Pos()).Line+1)
			}
			if n.Name.Name == "init" && n.Recv == nil {
				h.inits++
			}
		case *ast.UnaryExpr:
			if value, ok := n.X.(*ast.CompositeLit); ok && n.Op == token.AND && isError(value.Type, faults) {
				h.faults++
			}
		}
		return true
	})
	return nil
}

// isError reports whether a type is Error of the package fault.
func isError(t ast.Expr, faults string) bool {
	s, ok := t.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Error" || faults == "" {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == faults
}

// columns counts the lines that are wider than a limit.
func columns(wide map[int]int, text []byte) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimRight(line, "\r\n")
		n := utf8.RuneCount(line) + 3*bytes.Count(line, []byte("\t"))
		for _, limit := range []int{120, 140} {
			if n > limit {
				wide[limit]++
			}
		}
	}
}

// kinds counts the lines that have a part of a comment and nothing else, and those of code.
func kinds(text []byte) (comments, code int) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, scanner.ScanComments)
	commented, coded := map[int]bool{}, map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // none that is written
		}
		lines := coded
		if tok == token.COMMENT {
			lines = commented
		}
		from := file.Line(pos)
		for i := range 1 + strings.Count(literal, "\n") {
			lines[from+i] = true
		}
	}
	for line := range commented {
		if !coded[line] {
			comments++
		}
	}
	return comments, len(coded)
}

func (h *house) packageLines() (all []int) {
	for _, p := range h.packages {
		all = append(all, p.lines)
	}
	return all
}

func (h *house) packagesThat(yes func(*pkg) bool) (n int) {
	for _, p := range h.packages {
		if yes(p) {
			n++
		}
	}
	return n
}

func (h *house) commented() int { return h.packagesThat(func(p *pkg) bool { return p.commented }) }
func (h *house) untested() int  { return h.packagesThat(func(p *pkg) bool { return !p.test }) }
func (h *house) withOneImporter() int {
	return h.packagesThat(func(p *pkg) bool { return !p.command && len(p.importers) == 1 })
}

// subjects counts the subjects of commits that begin with a verb.
func (h *house) subjects(all []string) {
	h.commits = len(all)
	for _, subject := range all {
		if _, rest, ok := strings.Cut(subject, ": "); ok {
			subject = rest
		}
		word, _, _ := strings.Cut(subject, " ")
		if slices.Contains(verbs, strings.TrimRight(word, ",:")) {
			h.verbs++
		}
	}
}

// verbs are those that subjects begin with, in the imperative.
var verbs = strings.Fields(`
	accept add admit adopt allow answer append apply ask attach avoid bind bound break bring build bump
	cache call carry change check choose clean clear close collect compare compile complete compute
	connect convert copy count cover create cut declare decode delete deny derive describe detect
	digest document don't drop embed enable encode end enforce ensure exclude expect explain export
	expose extend extract fail fetch fill find finish fix flush fold follow forget forward fuzz
	generate give go group guard handle hash have hide hint hold ignore implement import improve
	include increase inline insert inspect install introduce invoke join judge keep know launch leave
	let limit link list load lock log look lower make map mark match measure mend merge migrate mirror
	mount move name normalise note offer omit open order pack parse pass pin place plant pool prefer
	prepare print probe promise prove prune publish pull push put raise read record redact reduce
	refuse reject release rely remember remove rename repair repeat replace replay report require
	reserve reset resolve respect restore restrict resume retry return reuse revert revoke rewrite run
	sample save say scan search send separate serve set share shorten show shrink sign simplify skip
	sort spell split start state stop store stream strip support swap sync take teach tell test tighten
	time track treat trim trust turn type-check unify unpack update use validate vendor verify visit
	wait walk warn watch weigh wrap write`)
