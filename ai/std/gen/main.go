// Command gen writes the manifest of the embedded library.
//
//	go generate ./ai/std
//
// It reads every file below .ai and writes manifest.yaml beside it: digests, sizes, and of the items refs and
// versions, by the library's own extractors. It refuses a file that is executable or has CR LF, an item with a
// problem, and what no manifest may list: the same tree gives the same bytes on every machine.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	dir := flag.String("dir", ".ai", "the library")
	out := flag.String("o", "manifest.yaml", "file to write")
	flag.Parse()
	if err := write(*dir, *out); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// write writes the manifest of the library in dir, unless something is wrong with it.
func write(dir, out string) error {
	list, err := generate(os.DirFS(dir))
	if err != nil {
		return err
	}
	return os.WriteFile(out, list, 0o644)
}
