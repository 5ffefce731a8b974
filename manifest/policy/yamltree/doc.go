// Package yamltree reads the YAML files that people write, and writes them again with their comments.
//
// How a file goes through here: Parse checks the characters (splitLines), lets the YAML reader parse the file,
// turns its nodes into a Tree (treeReader.fill, plainNode), and attaches the comments (treeReader.comments,
// placer). Callers read fields with Fields, TextOf, Words and the like. To edit a file they copy the tree (Copy),
// change it (Entry, Set, Drop), write it with Format, and parse the result again.
//
// # Reading
//
// A file is one document of at most 1 MiB of UTF-8, in lines that end in LF. It has only printable characters,
// plain or escaped: no tabs, no byte order mark, no characters that break lines for some readers or are invisible.
// It is a mapping whose values are mappings, lists of texts, and texts. The first line may be "---". Anchors,
// aliases, tags, merge keys, directives, block texts and texts over several lines are errors, and so is a key that
// is used twice or has no value. Values have no types: 1.10, no and 2026-11-20 are texts. An *Error has the line
// and the column, in characters.
//
// # Writing
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
// Sections are blocks with a blank line before each. An entry in them takes one line if it has no comments inside
// and fits into 120 characters. Single blank lines stay between the entries of blocks. A text is bare if it is a
// plain word of up to 40 characters for every YAML reader, else in double quotes; a bare number stays bare. The
// order is that of the file. Only content and comments determine the form, so writing a written file again changes
// nothing.
//
// Edits of the tree keep the comments of the remaining entries. Callers must parse the result again.
package yamltree
