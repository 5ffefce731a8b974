// Package fields reads and validates an item's fields.
//
// # How a check goes through here
//
// An extractor's schema is read with Reader.Schema into demands. Schema.Check compares an item's fields with it:
// object, value, kind and bounds add problems to the Report, each with its place. A Reader reads single fields (Text,
// Bool, List, Object …) and reports those of the wrong type.
//
// # Schemas
//
// A schema is data: requirements by field.
//
//	name: {type: string, required: true, format: snake_case, match_filename: true}
//	version: {type: semver, required: true}
//	category: {type: string, match_path: true}
//	model:
//	  type: object
//	  properties:
//	    parallel: {type: string, enum: ["true", "false"]}
//	weight: {type: number, min: 0.5, max: 2}
//	inputs: {type: array, items: {type: object, required: [name, type]}}
//
// type is string, semver, integer, number, boolean, object, array or any. nullable goes with required: the field
// must exist and may be null. A required field must be neither null nor empty (except a category at the root).
// match_filename is the last segment of an item's id, match_path the part before it. properties may be called
// fields or schema; min and max minimum and maximum; the keys of an array's objects may be next to it as
// required_keys or keys. An unknown word is a problem, because an unknown requirement can't be met. A schema has at
// most 200 fields per level and 32 levels.
//
// Numbers are compared exactly, however long they are. Versions are Semantic Versioning 2.0.
//
// # Messages
//
// Messages are those of the existing system, with its names of types: str, int, float, bool, list, dict, NoneType.
// Quotes from a file are ASCII and at most 200 bytes long. A file has at most 200 reported problems.
package fields
