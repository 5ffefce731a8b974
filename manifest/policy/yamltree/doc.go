// Package yamltree reads the YAML files that people write, and writes them again with their comments.
//
// # What is read
//
// One document of at most 1 MiB of UTF-8, in lines that end in LF, of printable characters and no others: no
// tabs, no byte order mark, nothing that breaks lines for some readers or hides from others, neither plain nor
// escaped. It is a mapping whose values are mappings, lists of texts, and texts. The line "---" may stand first.
// Anchors, aliases, tags, merge keys, directives, block texts and texts over several lines are refused, and so is
// a key that stands twice or has no value. Nothing has a type: 1.10, no and 2026-11-20 are the texts that stand
// there. An *Error has the line and the column, in characters.
//
// # What is written
//
//	# a comment above an entry is that entry's
//	keys:  # and so is one behind it
//	  alice: {key: "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw", owner: Alice}
//	  bob:
//	    # with a comment inside, an entry takes a line for each field
//	    key: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
//	  # indented like the entries above it and not like what follows, a comment stays with those
//
//	names:
//	  "acme/**": {keys: [alice, bob], threshold: 2}
//
// Sections are blocks with a blank line before each; what is in them takes one line if it has no comments inside
// and fits into 120 characters. Single blank lines stay between the entries of blocks. A text is bare if it is a
// plain word of up to 40 characters for every YAML reader, else in double quotes; a number that was bare stays
// so. The order is that of the file. Only content and comments decide about the form, so that writing what was
// written changes nothing.
//
// Edits of the tree keep the comments of what stays. What they make is to be read again.
package yamltree
