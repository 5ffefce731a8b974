// Package wire writes conversations in the formats of language model services, and reads their answers.
//
// It knows four formats:
//
//	content_blocks    Anthropic Messages
//	chat_completion   OpenAI Chat Completions, and the many services that are compatible with it
//	responses         OpenAI Responses, without state on the server
//	gemini            Gemini generateContent and streamGenerateContent
//
// A request is a set of parameters. A provider item (package provider) puts them into the request to its service:
//
//	messages         the conversation in the response format
//	system           instructions, a text or an object; chat_completion has them in messages
//	tools            a list, absent without tools
//	stream, mode     true and "stream", absent if the answer is one body
//	stream_options   of chat_completion, with stream
//	action, alt      of gemini: the end of the path, and of the query
//
// # Conversations
//
// A conversation begins with the user, ends with the user or a tool, and has a result right after every call.
// Adjacent messages of one role are joined if a service requires alternating roles, and an assistant's message
// without text and calls is left out. Opaque has the thinking that a service wants back, such as signed or
// encrypted blocks. It is sent back unchanged in the same format while the message still has the original text and
// calls.
//
// With Conversation.Parsed, the instructions describe the tools, and calls are read from the text:
//
//	<invoke name="search"><parameter name="query">rye</parameter></invoke>
//
// A parameter is text without surrounding space, or the JSON object or list in the text. The ids of calls are
// textcall_0, textcall_1 …, and their results are sent as the user's text. An answer with native calls is read as
// in the other mode.
//
// # How a request goes through here
//
// Format.Params checks the conversation (conversed, checkTools), turns tools into text with asText if Parsed is
// set, and the format's fill writes the parameters. Format.Body reads an unstreamed answer with whole. For a
// stream, Stream.Emit collects lines and Stream.Event passes each event to the format's events; Stream.Answer then
// returns the answer. Both end with finish. Reported and Failure.Settle read failures.
//
// # Invalid answers
//
// Arguments that aren't a JSON object, or nest more than 32 deep, become ToolCall.Raw and are sent back as {"_raw":
// …}. A call without an id, or with the id of an earlier call of the answer, gets a new one. Token counts that are
// missing, negative, malformed, above 100 million or contradictory aren't reported: Usage is then zero, with
// Reported false. A stream that ends before the service has ended the answer is a Failure. An answer has at most
// 1,024 calls.
//
// If a service sends its own key in an answer, the key is removed: a Stream is a sink.Gatherer, so the parts of a
// text, the whole text, the calls and the thinking are searched. A sink around a Stream must pass Hide on. Thinking
// that contained a secret isn't sent back.
//
// # Failures
//
// A Failure is the error of a model call, found by this package or reported by the service. Package classification
// reads its document:
//
//	{"provider": "rye/agent/providers/anthropic", "status_code": 529,
//	 "error": {"type": "overloaded_error", "code": "overloaded", "message": "Overloaded"}}
//
// status_code is also set for an error inside a stream, by its type. The code is the service's, or one of this
// package's that replaces the codes of all services: context_length_exceeded, content_refused, insufficient_quota,
// overloaded.
package wire
