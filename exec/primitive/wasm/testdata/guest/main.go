// Command guest is a module for tests: "guest WHAT …" does what its name says.
package main

// Of few packages: what was compiled of them is loaded at each call.
import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
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
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(9)
	}
}

// say writes words and a line's end.
func say(words ...string) { io.WriteString(stdout, strings.Join(words, " ")+"\n") }

// list writes texts as JSON, where they have no control characters but those that Go writes in the same way.
func list(texts []string) error {
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, strconv.Quote(text))
	}
	_, err := io.WriteString(stdout, "["+strings.Join(quoted, ", ")+"]\n")
	return err
}

// said is what came of an error.
func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func do(what string, args []string) error {
	switch what {
	case "echo":
		_, err := io.Copy(stdout, os.Stdin)
		return err
	case "each": // line of words, and says what it wrote and what came of it
		lines, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		var all []string
		for line := range strings.Lines(string(lines)) {
			var b bytes.Buffer
			stdout = &b
			words := strings.Fields(line)
			err := do(words[0], words[1:])
			all = append(all, b.String(), said(err))
		}
		stdout = os.Stdout
		return list(all)
	case "args":
		return list(args)
	case "env":
		return list(os.Environ())
	case "say": // OUT ERR STATUS
		io.WriteString(stdout, args[0])
		os.Stderr.WriteString(args[1])
		n, err := strconv.Atoi(args[2])
		if err == nil {
			os.Exit(n)
		}
		return err
	case "print": // BYTES of text without repetition
		n, err := strconv.Atoi(args[0])
		var b []byte
		for i := 0; len(b) < n; i++ {
			b = append(strconv.AppendInt(append(b, "line "...), int64(i), 10), '\n')
		}
		if err == nil {
			_, err = stdout.Write(b[:n])
		}
		return err
	case "forever": // FILE, once it has begun
		say("x")
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
			say("and so on")
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
		say(strconv.Itoa(len(held)))
		return err
	case "time":
		now := time.Now()
		time.Sleep(time.Hour)
		say("["+strconv.FormatInt(now.UnixMilli(), 10)+",", strconv.FormatBool(time.Since(now) >= time.Hour)+"]")
		return nil
	case "now":
		say(strconv.FormatInt(time.Now().UnixMilli(), 10))
		return nil
	case "random":
		say(strconv.FormatUint(rand.Uint64(), 10))
		return nil
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
			say(e.Name(), strconv.FormatBool(e.IsDir()))
		}
		return err
	case "walk":
		return filepath.WalkDir(args[0], func(p string, _ os.DirEntry, err error) error {
			say(strings.TrimSpace(p + " " + said(err)))
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
		io.WriteString(stdout, string(b)+" "+string(all))
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
		io.WriteString(stdout, strconv.Quote(strings.Join(open, " ")))
		return nil
	}
	return errors.New("no program " + what)
}
