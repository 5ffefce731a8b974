// Command guest is a module for tests: "guest WHAT …" does what its name says.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stdout is where what is done is said.
var stdout io.Writer = os.Stdout

func main() {
	if err := do(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

func do(what string, args []string) error {
	switch what {
	case "echo":
		_, err := io.Copy(stdout, os.Stdin)
		return err
	case "each": // of a list of words, and says what came of it
		var all [][]string
		if err := json.NewDecoder(os.Stdin).Decode(&all); err != nil {
			return err
		}
		said := []map[string]any{}
		for _, words := range all {
			var b bytes.Buffer
			stdout = &b
			err := do(words[0], words[1:])
			said = append(said, map[string]any{"out": b.String(), "error": fmt.Sprint(err), "failed": err != nil})
		}
		return json.NewEncoder(os.Stdout).Encode(said)
	case "args":
		return json.NewEncoder(stdout).Encode(append([]string{}, args...))
	case "env":
		return json.NewEncoder(stdout).Encode(append([]string{}, os.Environ()...))
	case "say": // OUT ERR STATUS
		fmt.Fprint(stdout, args[0])
		fmt.Fprint(os.Stderr, args[1])
		n, err := strconv.Atoi(args[2])
		if err == nil {
			os.Exit(n)
		}
		return err
	case "print": // BYTES of text, no piece of which is like the one before
		n, err := strconv.Atoi(args[0])
		var b []byte
		for i := 0; len(b) < n; i++ {
			b = fmt.Appendf(b, "line %d\n", i)
		}
		if err == nil {
			_, err = stdout.Write(b[:n])
		}
		return err
	case "forever": // FILE, once it has begun
		fmt.Fprintln(stdout, "x")
		if err := os.WriteFile(args[0], nil, 0o600); err != nil {
			return err
		}
		for {
			time.Sleep(time.Hour)
		}
	case "spin":
		for n := uint64(0); ; n++ {
		}
	case "flood":
		for {
			fmt.Fprintln(stdout, "and so on")
		}
	case "dribble": // COUNT single bytes
		n, err := strconv.Atoi(args[0])
		for range n {
			stdout.Write([]byte("."))
		}
		return err
	case "grab": // MIB, touched
		n, err := strconv.Atoi(args[0])
		held := make([]byte, n<<20)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
		fmt.Fprintln(stdout, len(held))
		return err
	case "time":
		now := time.Now()
		time.Sleep(time.Hour)
		return json.NewEncoder(stdout).Encode([]any{now.UnixMilli(), time.Since(now) >= time.Hour})
	case "now":
		return json.NewEncoder(stdout).Encode(time.Now().UnixMilli())
	case "random":
		b := make([]byte, 16)
		_, err := rand.Read(b)
		fmt.Fprintf(stdout, "%q", fmt.Sprintf("%x", b))
		return err
	case "panic":
		panic("over")
	case "read":
		b, err := os.ReadFile(args[0])
		stdout.Write(b)
		return err
	case "write":
		return os.WriteFile(args[0], []byte(args[1]), 0o600)
	case "copy":
		b, err := os.ReadFile(args[0])
		if err == nil {
			err = os.WriteFile(args[1], b, 0o600)
		}
		return err
	case "list":
		entries, err := os.ReadDir(args[0])
		for _, e := range entries {
			fmt.Fprintln(stdout, e.Name(), e.IsDir())
		}
		return err
	case "walk":
		return filepath.WalkDir(args[0], func(p string, _ os.DirEntry, err error) error {
			fmt.Fprintln(stdout, p, err)
			return nil
		})
	case "mkdir":
		return os.Mkdir(args[0], 0o700)
	case "rm":
		return os.Remove(args[0])
	case "mv":
		return os.Rename(args[0], args[1])
	case "ln":
		return os.Symlink(args[0], args[1])
	case "link":
		return os.Link(args[0], args[1])
	case "append":
		f, err := os.OpenFile(args[0], os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(args[1])
		return err
	case "edit": // FILE: reads, seeks, writes, shortens, and reads again
		f, err := os.OpenFile(args[0], os.O_RDWR, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 4)
		if _, err = f.ReadAt(b, 1); err == nil {
			_, err = f.WriteAt([]byte("EDIT"), 2)
		}
		if err == nil {
			err = f.Truncate(8)
		}
		if err == nil {
			err = f.Sync()
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		all, _ := io.ReadAll(f)
		fmt.Fprintf(stdout, "%s %s", b, all)
		return err
	case "fds": // which of the files 3 to 20 are there
		var open []string
		for fd := 3; fd <= 20; fd++ {
			var st syscall.Stat_t
			if syscall.Fstat(fd, &st) == nil {
				open = append(open, strconv.Itoa(fd))
			}
			buf := make([]byte, 1)
			if _, err := syscall.Read(fd, buf); err == nil {
				open = append(open, "read "+strconv.Itoa(fd))
			}
			if _, err := syscall.Write(fd, []byte("x")); err == nil {
				open = append(open, "write "+strconv.Itoa(fd))
			}
		}
		fmt.Fprintf(stdout, "%q", strings.Join(open, " "))
		return nil
	case "dial":
		c, err := net.DialTimeout("tcp", args[0], time.Second)
		if err == nil {
			err = c.Close()
		}
		return err
	}
	return fmt.Errorf("no program %q", what)
}
