// Command ryed is what a team hosts: the registry that bundles are published to.
//
// It has the frame of command rye (package cmd/rye/cli), and links what only a host needs.
package main

import (
	"os"

	"github.com/rye-build/rye/cmd/ryed/registries"
)

func main() { os.Exit(registries.Main(os.Args)) }
