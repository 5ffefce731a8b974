package demos

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// A scripted model is a local HTTP server that answers the directives of the demonstration in the format of Chat
// Completions. The caller closes it with close.
type scripted struct {
	address string
	before  func() error // runs before the second answer to acme/report
	close   func()
}

// startModel starts the model on a free port of this machine.
func startModel() (*scripted, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &scripted{address: l.Addr().String()}
	server := &http.Server{Handler: m, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	m.close = func() { server.Close(); <-done }
	return m, nil
}

// A message is the part of a message that the script reads.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type object = map[string]any

// ServeHTTP implements http.Handler.
func (m *scripted) ServeHTTP(response http.ResponseWriter, q *http.Request) {
	var question struct {
		Messages []message `json:"messages"`
	}
	const most = 1 << 20
	if err := json.NewDecoder(io.LimitReader(q.Body, most)).Decode(&question); err != nil ||
		len(question.Messages) == 0 {
		http.Error(response, "no messages", http.StatusBadRequest)
		return
	}
	name, arguments, err := m.decide(question.Messages)
	if err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	text, _ := json.Marshal(arguments) // strings, numbers and objects, so it can't fail
	call := object{"id": fmt.Sprintf("call_%d", len(question.Messages)), "type": "function",
		"function": object{"name": name, "arguments": string(text)}}
	response.Header().Set("Content-Type", "application/json")
	json.NewEncoder(response).Encode(object{"object": "chat.completion", "model": "script",
		"choices": []any{object{"index": 0, "finish_reason": "tool_calls",
			"message": object{"role": "assistant", "content": nil, "tool_calls": []any{call}}}},
		"usage": object{"prompt_tokens": 200, "completion_tokens": 20}})
}

// decide returns the next tool call of the model. It depends on the directive and the number of tool results so far.
func (m *scripted) decide(messages []message) (name string, arguments object, err error) {
	var results []string
	for _, said := range messages {
		if said.Role == "tool" {
			results = append(results, fmt.Sprint(said.Content))
		}
	}
	count := object{"item_type": "tool", "item_id": "acme/words", "parameters": object{"text": "one two three"}}
	switch child := strings.Contains(fmt.Sprint(messages[0].Content), `name="count"`); {
	case child && len(results) == 0:
		return "rye_execute", count, nil
	case child:
		return "directive_return", object{"words": 3}, nil
	case len(results) == 0:
		return "rye_execute", object{"item_type": "tool", "item_id": "rye/agent/threads/thread_directive",
			"parameters": object{"directive_name": "acme/count", "inputs": object{"text": "one two three"}}}, nil
	case len(results) == 1:
		return "rye_execute", count, m.before()
	}
	first, second := "failed", "was allowed"
	if strings.Contains(results[0], `"words":3`) {
		first = "3 words"
	}
	if strings.Contains(results[1], "LOCK_MISMATCH") {
		second = "was refused: LOCK_MISMATCH"
	}
	return "directive_return", object{"report": "the first count: " + first + "; the second one " + second}, nil
}
