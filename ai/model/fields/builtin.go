package fields

import "github.com/rye-build/rye/ai/value"

// The schemas of kinds without an extractor. They are those of the existing system, except that a directive needs
// neither author nor category.

// Directive returns the schema of directives.
func Directive() Schema {
	return Schema{
		{name: "name", kind: stringKind, required: true, snake: true, matchFilename: true},
		{name: "version", kind: semverKind, required: true},
		{name: "description", kind: stringKind, required: true},
		{name: "category", kind: stringKind, matchPath: true},
		{name: "author", kind: stringKind},
		{name: "model", kind: objectKind, fields: []demand{
			{name: "tier", kind: stringKind}, {name: "fallback", kind: stringKind}, {name: "id", kind: stringKind},
			{name: "parallel", kind: stringKind, enum: texts("true", "false")},
		}},
	}
}

// Tool returns the schema of tools.
func Tool() Schema {
	return Schema{
		{name: "name", kind: stringKind, required: true, matchFilename: true},
		{name: "category", kind: stringKind, required: true, matchPath: true},
		{name: "tool_type", kind: stringKind, required: true},
		{name: "version", kind: semverKind, required: true},
		{name: "description", kind: stringKind, required: true},
		{name: "executor_id", kind: stringKind, required: true, nullable: true},
	}
}

// Knowledge returns the schema of knowledge.
func Knowledge() Schema {
	return Schema{
		{name: "id", kind: stringKind, required: true, matchFilename: true},
		{name: "title", kind: stringKind, required: true},
		{name: "version", kind: semverKind, required: true},
		{name: "entry_type", kind: stringKind, required: true},
		{name: "category", kind: stringKind, matchPath: true},
	}
}

func texts(list ...string) []*value.Value {
	values := make([]*value.Value, len(list))
	for i, s := range list {
		values[i] = &value.Value{Kind: value.Text, Text: s}
	}
	return values
}
