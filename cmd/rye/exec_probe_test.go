package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rye-build/rye/cas"
)

// probeMain is a program for tools of tests: "probe WHAT …" does what its name says, inside whatever confines it. It
// ends at once: where coverage is measured, what runs at exit would write, or complain that it can't.
func probeMain() {
	if len(os.Args) < 2 {
		syscall.Exit(2)
	}
	if err := probed(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		syscall.Exit(1)
	}
	syscall.Exit(0)
}

func probed(what string, args []string) error {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	switch what {
	case "say", "seen": // everything it was given, as JSON; FILE to write it to
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		env := map[string]string{}
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		seen := map[string]any{"args": args, "stdin": string(in), "dir": dir, "env": env}
		if what == "seen" {
			b, err := json.Marshal(seen)
			return errors.Join(err, os.WriteFile(arg(0), b, 0o666))
		}
		return json.NewEncoder(os.Stdout).Encode(seen)
	case "print": // texts with \xNN and the like
		for _, a := range args {
			text, err := strconv.Unquote(`"` + a + `"`)
			if err != nil {
				return err
			}
			os.Stdout.WriteString(text)
		}
	case "fail": // STATUS TEXT
		status, err := strconv.Atoi(arg(0))
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, arg(1))
		syscall.Exit(status)
	case "read":
		b, err := os.ReadFile(arg(0))
		os.Stdout.Write(b)
		return err
	case "list":
		entries, err := os.ReadDir(arg(0))
		for _, e := range entries {
			fmt.Println(e.Name())
		}
		return err
	case "package": // FILE…: as they stand where the tool's packages are
		for _, at := range args {
			b, err := os.ReadFile(filepath.Join(os.Getenv("RYE_PACKAGE_PATH"), at))
			if err != nil {
				return err
			}
			os.Stdout.Write(b)
		}
	case "write": // FILE TEXT
		return os.WriteFile(arg(0), []byte(arg(1)), 0o600)
	case "concat": // OUT FILE…: all of them, in a directory all that are in it, each after its name and age
		var out bytes.Buffer
		for _, at := range args[1:] {
			err := filepath.WalkDir(at, func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				b, err := os.ReadFile(path)
				fmt.Fprintf(&out, "%s %d\n%s", path, info.ModTime().Unix(), b)
				return err
			})
			if err != nil {
				return err
			}
		}
		return errors.Join(os.MkdirAll(filepath.Dir(arg(0)), 0o777), os.WriteFile(arg(0), out.Bytes(), 0o666))
	case "clock": // FILE: what time it is
		return os.WriteFile(arg(0), []byte(time.Now().String()), 0o666)
	case "link": // TARGET LINK
		return os.Symlink(arg(0), arg(1))
	case "mkdir":
		return os.MkdirAll(arg(0), 0o777)
	case "script": // FILE, which may be executed
		return errors.Join(os.MkdirAll(filepath.Dir(arg(0)), 0o777),
			os.WriteFile(arg(0), []byte("#!/bin/sh\n"), 0o777))
	case "move": // FILE FILE: by reading and writing, as between directories that are granted one by one
		b, err := os.ReadFile(arg(0))
		if err == nil {
			err = os.WriteFile(arg(1), b, 0o600)
		}
		if err == nil {
			err = os.Remove(arg(0))
		}
		return err
	case "dial":
		c, err := net.DialTimeout("tcp", arg(0), 5*time.Second)
		if err == nil {
			c.Close()
		}
		return err
	case "flood": // BYTES
		left, err := strconv.Atoi(arg(0))
		for block := bytes.Repeat([]byte("0123456789abcde\n"), 1<<12); err == nil && left > 0; left -= len(block) {
			_, err = os.Stdout.Write(block[:min(left, len(block))])
		}
		return err
	case "grow": // BYTES, on one line
		n, err := strconv.Atoi(arg(0))
		if err == nil {
			_, err = os.Stdout.Write(bytes.Repeat([]byte("x"), n))
		}
		return err
	case "grab": // MIB, and touches each page
		mib, err := strconv.Atoi(arg(0))
		var held [][]byte
		for range mib {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			held = append(held, b)
		}
		fmt.Println(len(held))
		return err
	case "leak": // HOW NAME: a variable in every form
		return leak(arg(0), os.Getenv(arg(1)))
	case "spin":
		for n := uint64(0); ; n++ {
		}
	case "wait": // MARK, for ever, after saying so
		fmt.Println("waiting")
		time.Sleep(time.Hour)
	case "half": // MARK FILE: writes it, and waits like a family
		if err := os.WriteFile(arg(1), []byte("half"), 0o666); err != nil {
			return err
		}
		return probed("family", args)
	case "family": // MARK: a child and its child wait for ever, and so does it
		for _, what := range []string{"orphan", "wait"} {
			if err := myself(what, arg(0)).Start(); err != nil {
				return err
			}
		}
		time.Sleep(time.Hour)
	case "orphan": // MARK: its child goes on in a session of its own
		return away(myself("wait", arg(0)))
	case "breed": // children that breed
		for {
			if err := myself("breed").Start(); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("what is %q?", what)
	}
	return nil
}

// myself is this program once more.
func myself(args ...string) *exec.Cmd {
	path, err := os.Executable()
	if err != nil {
		path = os.Args[0]
	}
	return exec.Command(path, args...)
}

// marked lists the processes of this machine that wait and have a mark among their arguments.
func marked(ts *testscript.TestScript, mark string) (found []string) {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	ts.Check(err)
	if len(all) == 0 {
		ts.Fatalf("no process can be seen")
	}
	for _, path := range all {
		if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("\x00wait\x00"+mark+"\x00")) {
			found = append(found, path)
		}
	}
	return found
}

// gone is "gone MARK": no process of this machine waits with MARK.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone MARK")
	}
	if left := marked(ts, args[0]); len(left) > 0 {
		ts.Fatalf("still there: %q", left)
	}
}

// there is "there MARK": waits until both processes of a family wait with MARK.
func there(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: there MARK")
	}
	for range 600 {
		if len(marked(ts, args[0])) == 2 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	ts.Fatalf("there are %q", marked(ts, args[0]))
}

// digest is "digest FILE": DIGEST becomes that of its bytes.
func digest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: digest FILE")
	}
	ts.Setenv("DIGEST", cas.Sum([]byte(ts.ReadFile(args[0]))).String())
}

// take is "take LOCK REF FIELD OTHER": in the pin of REF a field becomes what another lock has there.
func take(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: take LOCK REF FIELD OTHER")
	}
	field := regexp.MustCompile(`(?m)^(  "` + regexp.QuoteMeta(args[1]) + `": .* ` + args[2] + `: )("[^"]*"|[0-9]+)`)
	is, other := field.FindStringSubmatch(ts.ReadFile(args[0])), field.FindStringSubmatch(ts.ReadFile(args[3]))
	if is == nil || other == nil || is[2] == other[2] {
		ts.Fatalf("%q and %q", is, other)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Replace(ts.ReadFile(args[0]), is[0], is[1]+other[2], 1)),
		0o600))
}
