// Package condition is the language of conditions: in hooks, in the classification of failures, and in the policy's
// section ask.
//
//	c, err := condition.Parse(`params.amount > 100 and not caller == "ci"`)
//	if c.Holds(map[string]any{"params": map[string]any{"amount": 120.0}, "caller": "ann"}) { … }
//
// How a condition goes through here: Read and Parse read it (reader.condition) as an object (object) or as text
// (text, parser), and check the value of each comparison (checked). Holds and Ask answer it for a document (ask):
// they find the values at its paths (at) and compare them (compare, search).
//
// A condition is about a document of JSON's values: nil, bool, string, float64, int, int64, []any, map[string]any.
// It has two forms. A condition inside another one may have either form. Parse reads a text, Read either form.
//
// # As an object
//
//	{any: [CONDITION, …]}    one of them holds
//	{all: [CONDITION, …]}    all of them hold
//	{not: CONDITION}         it doesn't hold
//	{path: error.message, op: regex, value: "timed? out"}
//
// An empty object always holds. A path is names of members, or numbers of a list's elements counted from 0, joined
// by ".". A missing value is null. The operators; eq is the default:
//
//	eq, ne             the same value, or another: deep, 1 is 1.0, null is null
//	gt, gte, lt, lte   two numbers, or two strings by their bytes, in order
//	in                 value is a list that has it
//	contains           value, a string, is part of the text, or an element of the list
//	regex              value, an expression of RE2, matches somewhere in the text
//	exists             it isn't null; without a value
//
// The text is a string, or how JSON writes a number, true or false. contains and regex ignore case, except that an
// expression may begin with (?-i); "in" a list, and as an element of one, a string is the same or not.
//
// # As text
//
//	cost.current > cost.limit * 0.9 and not (error.type == "permission_denied" or error.code in ["a", "b"])
//
//	condition   one or more of "and" groups, joined by or; "and" binds more tightly, "not" more tightly still
//	comparison  A == B, !=, <, <=, >, >=, A in [B, …], A contains "text", A matches "expression"; A alone holds if it
//	            is true
//	A, B        a path, a number, a string in ' or ", true, false, null, or a product of such: A * B
//
// A path has letters, digits, "_" and "-" in its names, and begins with a letter or "_"; the words above are no paths.
// In strings \\, \' and \" are one character. "matches" and "contains" need a literal string.
//
// # Comparisons that are not possible
//
// These have no answer: gt, gte, lt and lte of anything but two numbers or two strings; a product with a factor
// that isn't a number; contains and regex of a value without text (null counts as an empty text); and a value alone
// that is neither true nor false. For Holds such a comparison is false, so "not" makes it true. Ask returns
// Unknown, so that a rule that restricts something can apply, and a rule that allows something can't:
//
//	"refunds above 100 ask": asks if c.Ask(doc) != condition.No, and so also for an amount of "120", or for none
//
// # Several names
//
// A value of the document may be Names: it equals each of them, and the first is its text.
//
// # Limits
//
// 4,096 bytes of text, 1,000 comparisons, 16 levels, 1,000 bytes in a string to search for, 256 values in a list. RE2
// takes time in proportion to the searched text, whose length the caller bounds.
package condition
