// Command gen writes tables.go of package portable from the files of one version of the Unicode Character
// Database. So a commit decides which names are portable, not the Go toolchain that builds rye.
//
//	go generate ./cas/portable
//
// It reads, below the directory named by -ucd (where Debian's package unicode-data puts them),
//
//	extracted/DerivedGeneralCategory.txt   what is assigned, control, private use, surrogate
//	DerivedCoreProperties.txt              Default_Ignorable_Code_Point
//	extracted/DerivedCombiningClass.txt    what is a combining mark
//	PropList.txt                           Noncharacter_Code_Point
//	CaseFolding.txt                        the mappings of status C and F
//
// and refuses files of any other version than the one named by -version.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	ucd := flag.String("ucd", "/usr/share/unicode", "directory of the Unicode Character Database")
	version := flag.String("version", "15.0.0", "the version that its files must have")
	out := flag.String("o", "tables.go", "file to write")
	flag.Parse()
	src, err := generate(os.DirFS(*ucd), *version)
	if err == nil {
		err = os.WriteFile(*out, src, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}
