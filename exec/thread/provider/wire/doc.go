// Package wire writes conversations as services of language models want them, and reads what they answer.
//
// It knows four formats:
//
//	content_blocks    Anthropic Messages
//	chat_completion   OpenAI Chat Completions, and the many services that are compatible with it
//	responses         OpenAI Responses, without state on the server
//	gemini            Gemini generateContent and streamGenerateContent
//
// A request is a set of parameters, which a provider item (package provider) puts where its service wants them:
//
//	messages         the conversation, as the format has it
//	system           instructions, a text or an object; chat_completion has them in messages
//	tools            a list, absent without tools
//	stream, mode     true and "stream", absent if the answer is one body
//	stream_options   of chat_completion, with stream
//	action, alt      of gemini: the end of the path, and of the query
//
// # Conversations
//
// A conversation begins with the user, ends with the user or a tool, and has a result for every call right after it.
// Messages of one role that follow each other are joined where a service wants roles to alternate, and an assistant's
// message without text and calls is left out. Thinking that a service wants back, such as signed or encrypted blocks,
// is in Opaque: it is sent back unchanged in the same format, as long as the message still has the text and the calls
// that it came with.
//
// With Conversation.Parsed, tools are described in the instructions, and calls are read from the text:
//
//	<invoke name="search"><parameter name="query">rye</parameter></invoke>
//
// A parameter is text without the space around it, or the object or list that it is in JSON. Calls are called
// textcall_0, textcall_1 …, and their results are sent as the user's text. An answer with native calls is read as in
// the other mode.
//
// # What a service says wrongly
//
// Arguments that aren't a JSON object, or nest more than 32 deep, become ToolCall.Raw, and are sent back as {"_raw":
// …}. A call without an id, or with that of another call of the answer, gets one. Counts of tokens that are missing,
// negative, broken or above 100 million, or that contradict each other, aren't reported: Usage is then zero, with
// Reported false. A stream that ends before the service has ended the answer is a Failure. An answer has at most 1,024
// calls.
//
// A service that says its own key in an answer is heard without it: a Stream is a sink.Gatherer, so the pieces of a
// text, the whole of it, the calls and the thinking are searched. A sink around a Stream must pass Hide on. Thinking
// with a secret in it isn't sent back.
//
// # Failures
//
// A Failure is the error of a model call, noticed here or told by the service. Its document is what package
// classification reads:
//
//	{"provider": "rye/agent/providers/anthropic", "status_code": 529,
//	 "error": {"type": "overloaded_error", "code": "overloaded", "message": "Overloaded"}}
//
// status_code is also set for an error inside a stream, by its type. The code is that of the service, or, whatever the
// service calls it, context_length_exceeded, content_refused, insufficient_quota or overloaded.
package wire
