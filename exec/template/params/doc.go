// Package params is the reader and validator of the parameters that a caller passes to a tool.
//
// # Input
//
//	-p limit=5 -p tags=a -p tags=b -p 'where={"x": 1}'       one parameter each, read by the schema
//	--params '{"limit": 5}'   --params @file   --params -    an object of JSON, from a file, from standard input
//
// The name ends at the first "=". VALUE is an integer, a number, true, false, null, an object or a list, written as
// JSON, if the schema allows that type and VALUE is one; otherwise it is a string, if the schema allows strings or
// has no type. For a list, VALUE may be one element, and the name may be repeated. Any other repetition is an
// error, as is one parameter both ways.
//
// Package jcs reads JSON, and refuses what is ambiguous. Values are nil, bool, float64, string, []any and
// map[string]any; Check also accepts int64. A text of parameters has at most MaxBytes, as do all pairs together;
// there are at most MaxPairs.
//
// # Schemas
//
// A schema is the part of JSON Schema that tools use: type, enum, const, nullable; properties, required,
// additionalProperties, patternProperties, propertyNames, minProperties, maxProperties, dependentRequired; items,
// prefixItems, additionalItems, contains, minContains, maxContains, minItems, maxItems, uniqueItems; minLength,
// maxLength, pattern; minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf; allOf, anyOf, oneOf, not, if,
// then, else; $ref within the document, $defs, definitions, default. title, description, examples, format, $comment,
// readOnly, x-… and the like are ignored. A schema with any other keyword is refused, because ignoring it could accept
// what it forbids; so are patterns that RE2 doesn't support (look-around, back references) and references to other
// documents.
//
// Keywords next to a $ref apply too. An integer is a number without a fraction, as in 5.0. Lengths count code
// points. A nil schema accepts everything.
//
// Complete adds the defaults of missing properties to existing objects, where properties, allOf and $ref declare
// them unconditionally, and then checks everything, defaults included. Fit is for values from files of the chain: a
// string where only a number is allowed becomes that number, and a number where only a string is allowed becomes
// that string. A caller's JSON isn't fitted.
//
// # How parameters go through here
//
// Compile reads a schema into nodes (compiler.schema, keywords.keyword) and infers the types that each allows
// (node.infer). Schema.Read reads the caller's input (Schema.pairs, node.typed; Caller.text, parseObject).
// Schema.Complete adds defaults (completer.complete) and calls Schema.Check, whose checker collects the problems.
//
// # Why no library
//
// google/jsonschema-go v0.4.3 agrees in 123 of 125 cases of testdata, but a schema that refers to itself ends the
// process with a stack overflow, one that branches 2^22 times takes 12 s (here it is refused after 0.2 s), and it
// accepts misspelt keywords, reports only the first problem, and repeats the value. A check takes twice the time
// and up to 5 times the allocations, and compiling 6 times both. Typing, defaults and fields need the nodes of Compile
// anyway, so that it would replace only the checker, about 350 of 1,595 lines.
//
// # Problems
//
// An *InvalidError lists all problems, at most MaxProblems, each with its place as in a.b[0]. It doesn't repeat
// values, which may be secret. A check takes at most 2^20 steps and 200 levels: a schema that needs more refuses
// the value.
package params
