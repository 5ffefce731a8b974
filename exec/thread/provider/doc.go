// Package provider turns a conversation into a call of a provider item, and the call's result into an answer.
//
// A provider is a tool that the primitive http_client runs: a YAML file with the address of a language model
// service, the form of its requests, and the names and prices of its models. A model call is an ordinary call of
// that tool. So the key is a secret by reference, only the declared host is reachable, output is redacted, and the
// call is logged and has a receipt:
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
// makes the call: Provider.Params writes the request in the service's format, the session calls the item, Stream
// receives the parts of the answer, and Answer or FailureOf reads the end. Classify classifies a failure. Cost
// prices the used tokens, and Worst the most that a call can use.
//
// # The item
//
// It has the fields of every tool, and these:
//
//	tier_mapping: {fast: acme-small, high: acme-large}   # the model of each name that directives use
//	pricing:                                            # dollars for a million tokens, as decimal strings
//	  acme-small: {input: "0.80", output: "4", cache_read: "0.08", cache_write: "1"}
//	  "*": {input: "3", output: "15"}                   # every other model
//	context_window: {acme-small: 128000, "*": 200000}   # tokens; or one number for all models
//	max_output: 8192                                    # tokens of one answer, likewise
//	overhead_tokens: 800                                # the most that the service adds to a request's input
//	start: ollama serve                                 # starts the server, if it is on this machine; errors name it
//	tool_use:
//	  mode: native                                      # or text_parsed
//	  response_format: chat_completion                  # content_blocks, chat_completion, responses or gemini
//	  cache: true                                       # mark the parts to cache; content_blocks only
//
// tier_mapping and tool_use.response_format are required, and every tool with tier_mapping is a provider. A price
// has at most 9 decimals. The categories of prices are those of Usage: input, output, cache_read, cache_write and
// reasoning. A price of 0 is known and a missing one is unknown, except that reasoning without its own price costs
// as much as output. The default of max_output is 8192 and that of overhead_tokens 1000; an unknown window is 0.
//
// The tool's executor is rye/core/primitives/http_client, its tool_type http, and network lists only the host of
// config.url. Its config uses the parameters as package template describes. input_schema must declare model,
// messages and max_tokens. The parameters are:
//
//	model        the id of the model
//	messages     the conversation in the response format
//	max_tokens   the most tokens of the answer
//	system       instructions, a text or a list of blocks; chat_completion has them in messages
//	tools        a list, absent without tools
//	stream       true, or absent
//	mode         "stream" for config.mode, or absent. A provider that doesn't declare it isn't streamed
//	stream_options, action, alt    for streaming with chat_completion and gemini
//
// Any further parameter that input_schema declares, such as temperature, comes from Request.Options. A value is
// never parsed as a template: a message with ${NAME} or {model} is sent unchanged.
//
// With mode text_parsed, the instructions describe the tools, and the text contains the calls. Package wire
// describes the formats, the parsing of calls, the plausible numbers of tokens, and the fields of a Failure.
//
// # The model of a thread
//
// ChooseModel returns a model that answers a thread: one that a provider's item reaches, or the record of another
// thread.
//
//	m, err := provider.ChooseModel(ctx, session, &provider.Wanted{Name: "fast", Priced: true})
//	answer, undone, err := m.Ask(ctx, &request, digest, show)
//
// The model is the caller's, otherwise the directive's, otherwise that of the tier general. Resolve documents the
// names; providers whose secrets are set come first. A model with an unknown price can't answer a thread with a
// spend limit.
//
// # Fallback
//
// A directive's <model tier="fast" fallback="openai"/> names a second model: a tier, a model, PROVIDER/MODEL, or a
// provider, which answers for the same tier. If the first model's key is missing, its server is on this machine and
// doesn't run, or it fails in a way that a retry can't change or didn't, the thread continues with the second, once.
// The record has the failure with the action "fallback".
package provider
