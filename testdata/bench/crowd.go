package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// groupSize is how many threads each thread in the middle of a crowd starts.
const groupSize = 25

// crowdItems are three directives: crowd starts groups, a group starts members, and a member only answers. All wait
// for those that they have started, so that a crowd of 1,000 members is 1,041 threads at once.
func crowdItems(groups int) map[string]string {
	directive := func(name string) string {
		return fmt.Sprintf(
			"<directive name=%q version=\"1.0.0\"><metadata><description>One of many</description><category>acme</category>"+
				"<model provider=\"acme/providers/local\" id=\"m\"/><limits turns=\"3\" tokens=\"2000000000\" spend=\"100\" spawns=\"100000\"/>"+
				"<permissions><execute><tool>rye/agent/threads/thread_directive</tool></execute></permissions></metadata>"+
				"<process>You are %s.</process></directive>\n", name, name)
	}
	return map[string]string{
		"directives/acme/crowd.md":        directive("crowd"),
		"directives/acme/group.md":        directive("group"),
		"directives/acme/member.md":       directive("member"),
		"tools/acme/providers/local.yaml": turnsItems["tools/acme/providers/local.yaml"],
		"config/resilience.yaml": fmt.Sprintf(
			"concurrency: {max_concurrent_children: %d, max_total_threads: 100000}\n", max(groups, groupSize)),
	}
}

// readyCrowd makes a project with a crowd of so many members, and remembers where its model is.
func readyCrowd(ctx context.Context, rye, project string, members int) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	l.Close()
	groups, _ := crowdOf(members)
	if err := writeItems(project, crowdItems(groups), address); err != nil {
		return err
	}
	for _, args := range [][]string{{"init", "--yes"}, {"sign", "--all", "-q", "--yes"}, {"lock", "-q"}} {
		if _, err := runIn(ctx, project, rye, args...); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(project, "address"), []byte(address), 0o666)
}

// crowdOf returns how many groups a crowd has, and how many members each.
func crowdOf(members int) (groups, each int) {
	return max(1, members/groupSize), min(members, groupSize)
}

// runCrowd runs a crowd. Its model answers no member before all of them have asked.
func runCrowd(ctx context.Context, rye, project string, members int) error {
	address, err := os.ReadFile(filepath.Join(project, "address"))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", string(address))
	if err != nil {
		return err
	}
	groups, each := crowdOf(members)
	var waiting sync.WaitGroup
	waiting.Add(groups * each)
	all := make(chan struct{})
	go func() { waiting.Wait(); close(all) }()
	children := func(name string, n int) []any {
		var calls []any
		for i := range n {
			arguments := fmt.Sprintf(
				`{"item_type":"tool","item_id":"rye/agent/threads/thread_directive","parameters":{"directive_name":"acme/%s"}}`,
				name)
			calls = append(calls, map[string]any{"id": fmt.Sprint("call_", i), "type": "function",
				"function": map[string]any{"name": "rye_execute", "arguments": arguments}})
		}
		return calls
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			return
		}
		message, stop := map[string]any{"role": "assistant", "content": "done"}, "stop"
		calls := []any(nil)
		switch text := string(b); {
		case strings.Contains(text, `"role":"tool"`):
		case strings.Contains(text, "You are crowd"):
			calls = children("group", groups)
		case strings.Contains(text, "You are group"):
			calls = children("member", each)
		default:
			waiting.Done()
			select {
			case <-all:
			case <-q.Context().Done():
				return
			}
		}
		if calls != nil {
			message, stop = map[string]any{"role": "assistant", "content": nil, "tool_calls": calls}, "tool_calls"
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": stop}},
			"usage":   map[string]any{"prompt_tokens": 10, "completion_tokens": 5}})
	})}
	go server.Serve(l)
	defer server.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	_, err = runIn(ctx, project, rye, "run", "acme/crowd", "-q")
	return err
}

// writeItems writes items of a project, whose provider is at an address.
func writeItems(project string, items map[string]string, address string) error {
	for name, text := range items {
		file := filepath.Join(project, ".ai", filepath.FromSlash(name))
		if strings.Contains(text, "%[1]s") {
			text = fmt.Sprintf(text, address)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// runIn runs a program in a directory and returns what it prints.
func runIn(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	out, err := c.Output()
	if err != nil {
		err = fmt.Errorf("%s %q: %w: %s", name, args, err, out)
	}
	return out, err
}
