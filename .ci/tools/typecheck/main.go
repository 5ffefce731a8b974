// Typecheck finds what a compiler would refuse in packages and their tests, for the system and architecture of the
// environment. It reads all source, that of dependencies too, and makes no code.
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	const mode = packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
		packages.NeedDeps |
		packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo
	list, err := packages.Load(&packages.Config{Mode: mode, Tests: true}, os.Args[1:]...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if packages.PrintErrors(list) > 0 || len(list) == 0 {
		os.Exit(1)
	}
}
