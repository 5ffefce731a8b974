// Package params answers: what does a caller hand to a tool, and is it what the tool takes?
//
// # What a caller writes
//
//	-p limit=5 -p tags=a -p tags=b -p 'where={"x": 1}'       one parameter each, read as the schema has it
//	--params '{"limit": 5}'   --params @file   --params -    an object of JSON, from a file, from standard input
//
// Of NAME=VALUE the name is what stands before the first "=". VALUE is an integer, a number, true, false, null, an
// object or a list, written as JSON, if the schema allows one of that type there and VALUE is one; else it is the text
// as it stands, if texts are allowed or nothing is said about types. Where a list is meant VALUE may be one element, and
// the name may come several times. Everything else twice is an error, one parameter both ways as well.
//
// JSON is read by package jcs: one meaning or none. Values are those that it makes: nil, bool, float64, string, []any
// and map[string]any; Check takes an int64 for the integer that it is. A text of parameters has at most
// MaxBytes, as do all pairs together; there are at most MaxPairs.
//
// # Schemas
//
// A schema is JSON Schema, as far as tools use it: type, enum, const, nullable; properties, required,
// additionalProperties, patternProperties, propertyNames, minProperties, maxProperties, dependentRequired; items,
// prefixItems, additionalItems, contains, minContains, maxContains, minItems, maxItems, uniqueItems; minLength,
// maxLength, pattern; minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf; allOf, anyOf, oneOf, not, if,
// then, else; $ref within the document, $defs, definitions, default. title, description, examples, format, $comment,
// readOnly, x-… and the like demand nothing. A schema with any other keyword is refused, for what it forbids would be
// let through; so are patterns that RE2 doesn't have (look-around, back references) and references elsewhere.
//
// What stands beside a $ref holds too. An integer is a number without a fraction, as in 5.0. Lengths count code points.
// A null where there is no schema stands for the schema that takes everything.
//
// Complete puts in the defaults of properties that are absent, in objects that are there, where properties, allOf and
// $ref say so unconditionally, and then checks all: a default that isn't valid is found. Fit is for what files of the
// chain say: a text where only a number is allowed becomes one if it is one, a number where only a text is allowed
// becomes that. What a caller sends as JSON is not fitted.
//
// An *InvalidError has everything that is wrong, at most MaxProblems, with the place as in a.b[0]. It doesn't repeat
// the values, which may be secret. A check does at most 2^20 steps, and goes 200 deep: a schema that needs more is
// refused at that value, and never passes it.
package params
