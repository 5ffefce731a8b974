// Package modeltest is a model server for tests: it speaks the four formats of package wire, with events and without,
// says what a script tells it to say, and misbehaves on cue.
//
//	s := modeltest.New(t,
//		modeltest.Turn{Calls: []wire.ToolCall{{ID: "a", Name: "add", Input: map[string]any{"x": 1}}}},
//		modeltest.Turn{Status: 429, RetryAfter: "3"},
//		modeltest.Turn{Text: "The sum is 3.", Usage: wire.Usage{Input: 40, Output: 8}})
//	item := s.Item("anthropic") // the library's provider, with the address of this server
//
// Each request takes the next turn of the script, whatever its format is. A request is held against what the vendor
// takes, and one that the vendor would refuse is refused in the vendor's words, without using up a turn. Requests
// keeps what came.
//
//	POST /v1/messages                                    content_blocks
//	POST /v1/chat/completions                            chat_completion
//	POST /v1/responses                                   responses
//	POST /v1beta/models/MODEL:generateContent            gemini
//	POST /v1beta/models/MODEL:streamGenerateContent      gemini
//
// Thinking is signed by the server, which refuses signed thinking that comes back changed.
package modeltest
