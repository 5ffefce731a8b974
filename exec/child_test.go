package exec_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	case "plugin": // what a plugin's program with a root, data and another file can do
		err = json.NewEncoder(os.Stdout).Encode(attack(args[1], args[2], args[3]))
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

// attack says what a program of a plugin can do.
func attack(root, data, other string) map[string]bool {
	said := map[string]bool{}
	can := func(what string, err error) { said[what] = err == nil }
	_, err := os.ReadFile(data + "/note")
	can("find data of the last call", err)
	can("write data", os.WriteFile(data+"/note", []byte("was here"), 0o600))
	can("write its files", os.WriteFile(root+"/bin/x", nil, 0o700))
	can("add files", os.WriteFile(root+"/new", nil, 0o600))
	can("remove its files", os.Remove(root+"/plugin.json"))
	can("add beside its data", os.WriteFile(data+"-new", nil, 0o600))
	_, err = os.ReadDir(filepath.Dir(data))
	can("list the data of others", err)
	_, err = os.ReadFile(root + "/plugin.json")
	can("read its files", err)
	_, err = os.ReadFile(other)
	can("read a file of the project", err)
	can("start its files", start(root+"/bin/x"))
	own, err := os.ReadFile(root + "/bin/x")
	if err == nil {
		_ = os.Remove(data + "/run")
		err = os.WriteFile(data+"/run", own, 0o700)
	}
	can("write a program into its data", err)
	can("start what is in its data", start(data+"/run"))
	return said
}

func start(program string) error {
	p, err := os.StartProcess(program, []string{program, childWord, "none"}, &os.ProcAttr{})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}
