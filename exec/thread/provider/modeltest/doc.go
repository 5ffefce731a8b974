// Package modeltest is a model server for tests. It implements the four formats of package wire, streamed and
// unstreamed, answers by a script, and misbehaves on request.
//
//	s := modeltest.New(t,
//		modeltest.Turn{Calls: []wire.ToolCall{{ID: "a", Name: "add", Input: map[string]any{"x": 1}}}},
//		modeltest.Turn{Status: 429, RetryAfter: "3"},
//		modeltest.Turn{Text: "The sum is 3.", Usage: wire.Usage{Input: 40, Output: 8}})
//	item := s.Item("anthropic") // the library's provider, with the address of this server
//
// Each request takes the next turn of the script, in any format. The server checks requests like the vendor. It
// refuses those that the vendor would refuse, with the vendor's message, without using up a turn. Requests returns
// all requests.
//
// # How a request goes through here
//
// Server.ServeHTTP finds the dialect by the path (Request.dialect), records the request, and checks it with
// dialect.check. exchange.answer then takes the turn of the handler or the script and writes a failure (fail), a
// body (whole) or events (stream).
//
//	POST /v1/messages                                    content_blocks
//	POST /v1/chat/completions                            chat_completion
//	POST /v1/responses                                   responses
//	POST /v1beta/models/MODEL:generateContent            gemini
//	POST /v1beta/models/MODEL:streamGenerateContent      gemini
//
// The server signs thinking, and refuses signed thinking that was changed.
package modeltest
