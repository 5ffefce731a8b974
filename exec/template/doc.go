// Package template fills the configuration of a chain: it puts variables, names and a caller's parameters into the
// texts that the pinned files of the chain hold, in one pass.
//
// # Templates
//
//	command: "${RYE_PYTHON}"                          a variable of the environment that the chain makes
//	args: ["--level", "${LEVEL:-info}", "{tool_path}"]
//	timeout: "{timeout}"                              a name, alone: it keeps its type
//	url: "https://api.example.com/things/{thing}"     a name among text: it is put as text
//
// ${NAME} is the variable NAME, of A-Z 0-9 _ and no digit first; without one it is an error. ${NAME:-text} is the text
// where the variable is unset or empty; the text is text, and has no brace in it. {word} is a name, of letters, digits,
// _ and -, that begins with a letter or _. Everything else is what stands there: {}, { x }, {"a": 1}, {1..3}, and
// ${x}, ${state.x}, ${{x}}, whose words aren't variables and which a later reader may expand. What would be
// read and is meant to stand there is doubled: $${NAME} is ${NAME}, {{word}} is {word}. A ${NAME that goes on in another
// way, such as ${NAME%.*}, is an error: half of what a shell knows would be a trap.
//
// Every text is read once. What was filled in is never read again, whatever it holds, and never split: an argument
// stays one argument.
//
// # Names
//
// A name is looked for in this order, and what is found first is meant:
//
//	the kernel's   tool_path, project_path, params_json …: given by the caller of the package
//	entries        of the configuration itself, filled in the same way: {server} is the entry "server" of some link.
//	               Circles are errors. Within an entry of the same name it isn't the entry that is meant.
//	parameters     that the tool declares. Undeclared ones reach no text
//
// {params.word} is the parameter, whatever else has the name.
//
// So a caller changes nothing that a link has set; a link that wants a parameter in its configuration says where. What
// none of them knows is an error. A declared parameter that wasn't given leaves out the entry of a map that consists of
// it ({"note": "{note}"}), and is an error elsewhere.
//
// A name among text is a text, a number or a truth value. In the entry "url" parameters and the kernel's names among text
// are percent-encoded, and may not be "." or "..": they can fill a segment or a value, and never add one or change the host.
//
// # Links
//
// Merge lays the configurations of the links over each other, entry by entry: what is nearer to the tool wins, and null
// says nothing. What comes of Fill is at most MaxFilled bytes of text, and names lead to names at most 32 deep.
package template
