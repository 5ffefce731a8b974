// Package provider turns a conversation into a call of a provider item, and what that call gives into an answer.
//
// A provider is a tool that the primitive http_client runs: a YAML file that says where a service of language models
// is, how a request to it looks, what its models are called and what they cost. A model call is an ordinary call of
// that tool. So the key is a secret by reference, only the declared host is reached, output is redacted, and the call
// is logged and has a receipt. This package makes no call itself:
//
//	p, err := provider.Read(item.Model)
//	given, err := p.Params(provider.Request{Model: "claude-haiku-4-5-20251001", Messages: messages,
//		MaxTokens: 4096, Stream: true})
//	stream := p.Stream(provider.Deltas{Text: show})
//	result, err := session.Call(ctx, &exec.Call{Ref: p.Ref, Params: params.Values(given)}, stream)
//	answer, err := p.Answer(&result.Result, stream)
//
// # How a model call goes through here
//
// ChooseModel finds the model of a thread by its name or tier, in the providers of the session (Resolve). Model.Ask
// makes the call: Provider.Params writes the request in the service's format, the session calls the item, Stream takes
// the pieces of the answer, and Answer or FailureOf reads the end. Classify turns a failure into its kind, Cost and
// Worst price what was used and what may be.
//
// # The item
//
// It has the fields of every tool, and these:
//
//	tier_mapping: {fast: acme-small, high: acme-large}   # names that directives use, and the model of each
//	pricing:                                            # dollars for a million tokens, as decimal strings
//	  acme-small: {input: "0.80", output: "4", cache_read: "0.08", cache_write: "1"}
//	  "*": {input: "3", output: "15"}                   # every other model
//	context_window: {acme-small: 128000, "*": 200000}   # tokens; or one number for all models
//	max_output: 8192                                    # tokens of one answer, likewise
//	overhead_tokens: 800                                # what the service adds to the input of a request at most
//	tool_use:
//	  mode: native                                      # or text_parsed
//	  response_format: chat_completion                  # content_blocks, chat_completion, responses or gemini
//	  cache: true                                       # mark what the service may cache; content_blocks only
//
// tier_mapping and tool_use.response_format are required, and what has tier_mapping is a provider. A price has at most
// 9 decimals. The categories of prices are those of Usage: input, output, cache_read, cache_write and reasoning. A
// price of 0 is known and a missing one is unknown, except that reasoning without a price of its own costs what output
// does. max_output is 8192 and overhead_tokens 1000 if missing; an unknown window is 0.
//
// The tool's executor is rye/core/primitives/http_client, its tool_type http, and network lists the host of config.url
// and no other. Its config says where the parameters go. These are the parameters; input_schema must declare model,
// messages and max_tokens. The config uses them as package template describes:
//
//	model        the id of the model
//	messages     the conversation, as the response format has it
//	max_tokens   the most tokens that the answer may have
//	system       instructions, a text or a list of blocks; chat_completion has them in messages
//	tools        a list, absent without tools
//	stream       true, or absent
//	mode         "stream" for config.mode, or absent. A provider that doesn't declare it isn't streamed
//	stream_options, action, alt    what chat_completion and gemini need to stream
//
// Any further parameter that input_schema declares, such as temperature, comes from Request.Options. A value is never
// read as a template: a message that has ${NAME} or {model} in it is sent as it is.
//
// With mode text_parsed the tools are described in the instructions, and called in the text. What the formats are, how
// calls are read, which numbers of tokens are believed, and what a Failure says, is in package wire.
//
// Package models finds what answers a thread: a model that a provider's item reaches, or the record of another thread.
//
//	m, err := models.ChooseModel(ctx, session, &models.Wanted{Name: "fast", Priced: true})
//	answer, undone, err := m.Ask(ctx, &request, show)
//
// The model is the caller's, else the directive's, else that of the tier general. Package provider says what a name
// means; providers whose secrets are set come first. A model whose price is unknown answers no thread that has a spend
// limit.
//
// # Fallback
//
// A directive's <model tier="fast" fallback="openai"/> names a second model: a tier, a model, PROVIDER/MODEL, or a
// provider, which is asked for the same tier. If the first one's key is missing, or it fails in a way that no other
// try would change, the thread goes on with the second, once. The record has the failure with the action "fallback".
package provider
