package session_test

import (
	"context"
	"fmt"
	"os"

	"github.com/rye-build/rye/ai/model"
	"github.com/rye-build/rye/exec"
	"github.com/rye-build/rye/exec/sandbox/sandboxtest"
	"github.com/rye-build/rye/exec/session"
	"github.com/rye-build/rye/exec/template/params"
	"github.com/rye-build/rye/lock/workspace"
)

// A program opens a project and runs a tool that its lock pins. Its main function begins with Inside.
func ExampleOpen() {
	ctx := context.Background()
	paths, remove := exampleProject() // where the project, the user's space, the store, the state and the cache are
	defer remove()
	w, err := workspace.Open(ctx, paths, workspace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close()
	self, _ := os.Executable()
	s, err := session.Open(ctx, w, session.Options{Self: self})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	greet := model.Ref{Kind: "tool", ID: "acme/greet"}
	r, err := s.Call(ctx, &exec.Call{Ref: greet, Params: params.Values(map[string]any{"name": "Ann"})}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Status, r.Value)
	// Output: ok map[greeting:hello, Ann]
}

// exampleProject makes a project whose lock pins tool:acme/greet.
func exampleProject() (paths workspace.Paths, remove func()) {
	dir, err := os.MkdirTemp("", "session")
	if err != nil {
		panic(err)
	}
	p, err := newProject(dir)
	if err == nil {
		err = p.lock()
	}
	if err != nil {
		panic(err)
	}
	return p.Paths, func() {
		sandboxtest.Unlock(dir)
		os.RemoveAll(dir)
	}
}
