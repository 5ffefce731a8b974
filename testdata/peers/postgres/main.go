// Postgres is Debian's PostgreSQL in a new directory, for tests: nothing it has is synced, and all of it is removed at
// the end. It prints the address of a database, listens on a Unix socket alone, and ends with its standard input.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

// as returns a command that the user postgres runs, if this is root: the server refuses root.
func as(name string, args ...string) *exec.Cmd {
	if os.Getuid() == 0 {
		args = append([]string{"--reuid=postgres", "--regid=postgres", "--clear-groups", name}, args...)
		name = "setpriv"
	}
	cmd := exec.Command(name, args...)
	cmd.Dir = "/"
	return cmd
}

func run() error {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(bins) == 0 {
		return errors.New("no PostgreSQL: apt-get install postgresql")
	}
	bin := bins[len(bins)-1]
	dir, err := os.MkdirTemp("", "rye-pg-")
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	defer os.RemoveAll(dir)
	defer func() { _ = as("rm", "-rf", data).Run() }() // they are another user's
	if err := os.Chmod(dir, 0o777); err != nil {
		return err
	}
	if out, err := as(filepath.Join(bin, "initdb"), "-D", data, "-U", "rye", "-A", "trust", "-E", "UTF8", "--locale=C",
		"--no-sync").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	server := as(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off",
		"-c", "synchronous_commit=off", "-c", "max_connections=90")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Wait()
	defer server.Process.Signal(syscall.SIGQUIT) // at once
	for end := time.Now().Add(30 * time.Second); as(filepath.Join(bin, "pg_isready"), "-q", "-h", dir).Run() != nil; {
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			return fmt.Errorf("it doesn't answer: %s", text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	fmt.Println("postgres://rye@/postgres?host=" + dir)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
