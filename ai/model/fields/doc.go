// Package fields reads the fields of one item, each in the form that it must have, holds them against a schema, and
// notes everything that is wrong with them, each with its place.
//
// # Schemas
//
// A schema is data. It names fields and asks something of each:
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
// type is string, semver, integer, number, boolean, object, array or any. nullable goes with required: the field must
// be there and may be null. What is required is neither null, nor empty (a category is, at the root). match_filename
// is the last segment of an item's id, match_path what stands before it. properties may be called fields or schema;
// min and max minimum and maximum; the keys of an array's objects may stand beside it as required_keys or keys. A word
// that isn't known is a problem: what is asked and not understood isn't met. A schema has at most 200 fields a level
// and 32 levels.
//
// Numbers are compared exactly, however long they are. Versions are Semantic Versioning 2.0.
//
// # Messages
//
// They are those of the system whose files are read, in its words for types: str, int, float, bool, list, dict,
// NoneType. What they repeat of a file is ASCII and at most 200 bytes long. Of one file at most 200 problems are told.
package fields
