// Package template fills in the configuration of a chain: it replaces variables, names and the caller's parameters in
// the texts of the chain's pinned files, in one pass.
//
// # How a configuration goes through here
//
// Merge merges the configurations of the links into a Config. Config.Fill fills each entry (filler.entry, value,
// text): split parses a text into pieces, and name, among and variable return their values. Expand does the same for a
// single text of the environment.
//
// # Templates
//
//	command: "${RYE_PYTHON}"                          a variable of the chain's environment
//	args: ["--level", "${LEVEL:-info}", "{tool_path}"]
//	timeout: "{timeout}"                              a name, alone: it keeps its type
//	url: "https://api.example.com/things/{thing}"     a name in a longer text: it becomes text
//
// ${NAME} is the variable NAME, of A-Z, 0-9 and _ without a digit first; a missing variable is an error. ${NAME:-text}
// is the text if the variable is unset or empty; it contains no braces. {word} is a name of letters, digits, _ and -,
// beginning with a letter or _. Everything else is literal: {}, { x }, {"a": 1}, {1..3}, and ${x}, ${state.x}, ${{x}},
// which a later reader may expand. Doubling makes the rest literal: $${NAME} is ${NAME}, {{word}} is {word}. A ${NAME
// that continues in another way, such as ${NAME%.*}, is an error: half of a shell's syntax would be a trap.
//
// Every text is read once. A filled-in value is never read again and never split: an argument remains one argument.
//
// # Names
//
// A name is looked up in this order:
//
//	the kernel's   tool_path, project_path, params_json …: from the caller of this package
//	entries        of the configuration itself, filled in the same way: {server} is the entry "server" of some link.
//	               Circular references are errors. Inside an entry, its own name isn't the entry.
//	parameters     that the tool declares. Undeclared ones are never used
//
// {params.word} is always the parameter.
//
// So a caller can't change a link's configuration, except where a link refers to a parameter. An unknown name is an
// error. A declared parameter that wasn't given removes a map entry that consists of it ({"note":
// "{note}"}), and is an error elsewhere.
//
// A name in a longer text is a string, number or boolean. In the entry "url", parameters and the kernel's names in a
// longer text are percent-encoded, and may not be "." or "..": they can fill a segment or a value, but never add one
// or change the host.
//
// # Links
//
// Merge merges the configurations of the links, entry by entry: a link nearer to the tool overrides the others, and
// null counts as missing. Fill makes at most MaxFilled bytes, and names refer to names at most 32 levels deep.
package template
