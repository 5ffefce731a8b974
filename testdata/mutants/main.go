// Command mutants plants the faults that testdata/mutants.txt of each package lists, one at a time, and runs the
// package's tests. A fault that no test notices survives, and the exit status is 1. Nothing in the tree is changed:
// the go command gets each faulty file as an overlay.
//
// A list names a file, then the text to replace, which occurs once in it, and what to put there:
//
//	reader.go
//	- l.Prev != r.Line.Sum
//	+ false
//
// The arguments are directories to search; without any it is the whole tree. After a line for each fault comes a table
// of the packages: how many faults were planted, and how many survive.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"
)

type mutant struct{ dir, file, from, to string }

// A row is the result of one package.
type row struct {
	dir              string
	planted, survive int
}

func main() {
	log.SetFlags(0)
	flag.Parse()
	places := flag.Args()
	if len(places) == 0 {
		places = []string{"."}
	}
	var rows []row
	for _, place := range places {
		mutants, err := find(strings.TrimSuffix(place, "/..."))
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range mutants {
			began := time.Now()
			found, err := m.found()
			if err != nil {
				log.Fatal(err)
			}
			if len(rows) == 0 || rows[len(rows)-1].dir != m.dir {
				rows = append(rows, row{dir: m.dir})
			}
			r := &rows[len(rows)-1]
			r.planted++
			verdict := "found   "
			if !found {
				verdict = "SURVIVES"
				r.survive++
			}
			fmt.Printf("%s  %s: %s -> %s  %s\n", verdict, filepath.Join(m.dir, m.file), m.from, m.to,
				time.Since(began).Round(time.Second/10))
		}
	}
	if report(os.Stdout, rows) > 0 {
		os.Exit(1)
	}
}

// report writes the table and the total, and returns how many faults survive.
func report(w io.Writer, rows []row) int {
	var all row
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\npackage\tplanted\tsurvive")
	for _, r := range rows {
		fmt.Fprintf(table, "%s\t%d\t%d\n", r.dir, r.planted, r.survive)
		all.planted, all.survive = all.planted+r.planted, all.survive+r.survive
	}
	table.Flush()
	fmt.Fprintf(w, "%d of %d planted faults survive\n", all.survive, all.planted)
	return all.survive
}

// find reads the lists below a directory.
func find(root string) (all []mutant, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) != "mutants.txt" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m := mutant{dir: filepath.Dir(filepath.Dir(path))}
		for line := range strings.Lines(string(b)) {
			switch text := strings.TrimSpace(line); {
			case text == "" || strings.HasPrefix(text, "#"):
			case strings.HasPrefix(text, "- "):
				m.from = text[2:]
			case strings.HasPrefix(text, "+ "):
				m.to = text[2:]
				all = append(all, m)
			default:
				m.file = text
			}
		}
		return nil
	})
	return all, err
}

// found plants the fault and reports whether a test fails. A fault that doesn't compile is an error.
func (m mutant) found() (bool, error) {
	path, err := filepath.Abs(filepath.Join(m.dir, m.file))
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	if n := bytes.Count(text, []byte(m.from)); n != 1 {
		return false, fmt.Errorf("%s: %q occurs %d times, want once", path, m.from, n)
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	faulty, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {path: faulty}})
	if err != nil {
		return false, err
	}
	if err := os.WriteFile(faulty, bytes.Replace(text, []byte(m.from), []byte(m.to), 1), 0o600); err != nil {
		return false, err
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		return false, err
	}
	pkg := "./" + filepath.ToSlash(m.dir)
	if out, err := exec.Command("go", "build", "-overlay", overlay, pkg).CombinedOutput(); err != nil {
		return false, fmt.Errorf("%s: %s -> %s doesn't compile: %s", path, m.from, m.to, out)
	}
	return exec.Command("go", "test", "-vet=off", "-count=1", "-failfast", "-timeout=10m", "-overlay", overlay,
		pkg).Run() != nil, nil
}
