// Command sshagent is an ssh-agent with one new Ed25519 key, for servers that sign by one: "sshagent SOCKET". It
// prints the key's fingerprint, and ends with its standard input.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(socket string) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	keys := agent.NewKeyring()
	if err := keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
		return err
	}
	shown, err := ssh.NewPublicKey(public)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(keys, conn)
		}
	}()
	fmt.Println(ssh.FingerprintSHA256(shown))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
