// Package peerstart starts the servers of testdata/peers that tests and benchmarks talk to. They are in a module of
// their own, because what they are made of is too heavy for the module of rye. Each prints one line, its address, and
// ends with its standard input.
package peerstart

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/rye-build/rye"

// Build builds the program that testdata/peers has in the directory name, or a program of rye or of the peers'
// dependencies by its import path, and returns the path of it in dir.
func Build(ctx context.Context, dir, name string) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
	root, err := list.Output()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, filepath.Base(name))
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, name)
	c.Dir = strings.TrimSpace(string(root))
	if !strings.HasPrefix(name, module+"/") {
		c.Dir = filepath.Join(c.Dir, "testdata", "peers")
	}
	if !strings.Contains(name, "/") {
		c.Args[len(c.Args)-1] = "./" + name
	}
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return program, nil
}

// Start builds and starts a server, and returns its address. The server ends when stop is called, and with this
// process at the latest.
func Start(ctx context.Context, name string, args ...string) (address string, stop func(), err error) {
	dir, err := os.MkdirTemp("", "rye-peer-")
	if err != nil {
		return "", nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	program, err := Build(ctx, dir, name)
	if err != nil {
		return "", nil, err
	}
	server := exec.Command(program, args...)
	server.Stderr = os.Stderr
	in, err := server.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		_ = server.Wait()
		os.RemoveAll(dir)
	}
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, errors.Join(fmt.Errorf("%s has not started", name), err)
	}
	return strings.TrimSpace(address), stop, nil
}
