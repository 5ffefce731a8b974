// House counts the tree, so that two states of it can be compared:
//
//	go run ./testdata/house [DIR | REVISION]...
//
// Without an argument it is the working directory. Each further one is a column: "go run ./testdata/house HEAD~50 ."
// shows what fifty commits and the changes that aren't committed made of it.
//
// # What counts as what
//
//	tree          the files that end with .go, without directories called testdata or vendor, and without those whose
//	              names begin with "." or "_", as the go command has it
//	hand-written  a file without the line "// Code generated … DO NOT EDIT."
//	product, test a file that ends with _test.go is a test, every other one product
//	lines         line feeds
//	function      a declaration with a body, from "func" to its last brace, in lines
//	package       a directory with product; its lines are those of its hand-written product
//	comment       a line that has a part of a comment and nothing else, //go:embed too; its share is of lines that
//	              aren't blank
//	columns       characters of a line, of which a tab is four; no line is exempt
//	importer      another package of the module whose product imports this one; commands are left out
//	own test      a _test.go file in the package's directory
//	fault.Error   &fault.Error{…} in product, fault being the package's name in that file
//	subject       of the last 200 commits; what is behind "package: " begins with a word of the list of verbs below.
//	              Grammar isn't looked at: "search reads no signatures" counts, since "search" is a verb.
//
// Every number but those of tests is of product. A median of an even number is the lower one of the middle; p90 is the
// least value that nine of ten don't exceed.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing/fstest"
	"text/tabwriter"
)

func main() {
	log.SetFlags(0)
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"."}
	}
	if err := run(os.Stdout, args); err != nil {
		log.Fatal(err)
	}
}

// run prints a table with a column for each directory or revision.
func run(w io.Writer, args []string) error {
	var all []*house
	for _, arg := range args {
		tree, git, err := open(arg)
		if err != nil {
			return err
		}
		h, err := count(tree)
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		if subjects, err := git("log", "-200", "--format=%s"); err == nil {
			h.subjects(strings.Split(strings.TrimSuffix(string(subjects), "\n"), "\n"))
		}
		all = append(all, h)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, arg := range args {
		fmt.Fprintf(t, "\t%s", arg)
	}
	fmt.Fprintln(t, "\t")
	for _, r := range rows {
		fmt.Fprint(t, r.name)
		for _, h := range all {
			fmt.Fprintf(t, "\t%s", r.of(h))
		}
		fmt.Fprintln(t, "\t")
	}
	return t.Flush()
}

// A git runs a command of git on what was opened: its last argument is the revision.
type git func(args ...string) ([]byte, error)

// open returns the files of a directory or a revision.
func open(arg string) (fs.FS, git, error) {
	if fi, err := os.Stat(arg); err == nil && fi.IsDir() {
		return os.DirFS(arg), gitIn(arg, "HEAD"), nil
	}
	g := gitIn(".", arg)
	archive, err := g("archive", "--format=tar")
	if err != nil {
		return nil, nil, fmt.Errorf("%s is neither a directory nor a revision: %w", arg, err)
	}
	tree := fstest.MapFS{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return tree, g, nil
		case err != nil:
			return nil, nil, err
		case h.Typeflag != tar.TypeReg || !strings.HasSuffix(h.Name, ".go") && h.Name != "go.mod":
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return nil, nil, err
		}
		tree[h.Name] = &fstest.MapFile{Data: b}
	}
}

func gitIn(dir, revision string) git {
	return func(args ...string) ([]byte, error) {
		cmd := exec.Command("git", append(args, revision)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			err = errors.New(strings.TrimSpace(string(e.Stderr)))
		}
		return out, err
	}
}

// A row is a line of the table.
type row struct {
	name string
	of   func(*house) string
}

var rows = []row{
	{"lines", func(h *house) string { return number(h.lines) }},
	{"files", func(h *house) string { return number(len(h.files)) }},
	{"file, median / p90", func(h *house) string { return pair(h.files, 50, 90) }},
	{"functions", func(h *house) string { return number(len(h.functions)) }},
	{"function, median / p99", func(h *house) string { return pair(h.functions, 50, 99) }},
	{"packages", func(h *house) string { return number(len(h.packages)) }},
	{"package, median / p90", func(h *house) string { return pair(h.packageLines(), 50, 90) }},
	{"comment lines", func(h *house) string { return share(h.comments, h.written) }},
	{"packages with a package comment", func(h *house) string { return share(h.commented(), len(h.packages)) }},
	{"init()", func(h *house) string { return number(h.inits) }},
	{"lines over 120 columns", func(h *house) string { return number(h.wide[120]) }},
	{"lines over 140 columns", func(h *house) string { return number(h.wide[140]) }},
	{"in tests, over 120", func(h *house) string { return number(h.wideTests[120]) }},
	{"in tests, over 140", func(h *house) string { return number(h.wideTests[140]) }},
	{"packages with one importer", func(h *house) string { return number(h.withOneImporter()) }},
	{"packages without an own test", func(h *house) string { return number(h.untested()) }},
	{"&fault.Error{…}", func(h *house) string { return number(h.faults) }},
	{"subjects that begin with a verb", func(h *house) string { return fmt.Sprintf("%d of %d", h.verbs, h.commits) }},
}

func number(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func share(n, of int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(of, 1))) }

func pair(values []int, a, b int) string {
	return number(percentile(values, a)) + " / " + number(percentile(values, b))
}

// percentile returns the least value that p of a hundred don't exceed.
func percentile(values []int, p int) int {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)*p+99)/100-1]
}
