package exec_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// child is the program that processes run here: this binary.
func child(args []string) int {
	var err error
	switch args[0] {
	case "args":
		err = json.NewEncoder(os.Stdout).Encode(append([]string{}, args[1:]...))
	case "stdin":
		_, err = io.Copy(os.Stdout, os.Stdin)
	case "env":
		list := os.Environ()
		slices.Sort(list)
		err = json.NewEncoder(os.Stdout).Encode(list)
	case "read": // each file, or why not
		said := map[string]string{}
		for _, path := range args[1:] {
			b, err := os.ReadFile(path)
			if said[path] = string(b); err != nil {
				said[path] = "refused"
			}
		}
		err = json.NewEncoder(os.Stdout).Encode(said)
	case "write":
		said := map[string]bool{}
		for _, path := range args[1:] {
			said[path] = os.WriteFile(path, []byte("was here"), 0o666) == nil
		}
		err = json.NewEncoder(os.Stdout).Encode(said)
	case "sleep":
		fmt.Println("sleeping")
		time.Sleep(time.Hour)
	default:
		err = fmt.Errorf("no program %q", strings.Join(args, " "))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 9
	}
	return 0
}
