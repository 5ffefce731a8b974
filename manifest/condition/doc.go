// Package condition is the language of conditions: in hooks, in the classification of failures, and in the policy's
// section ask.
//
//	c, err := condition.Parse(`params.amount > 100 and not caller == "ci"`)
//	if c.Holds(map[string]any{"params": map[string]any{"amount": 120.0}, "caller": "ann"}) { … }
//
// A condition is about a document of JSON's values: nil, bool, string, float64, int, int64, []any, map[string]any. It
// has two forms, and wherever one form has a condition it may have the other instead. Parse reads a text, Read either
// form.
//
// # As an object
//
//	{any: [CONDITION, …]}    one of them holds
//	{all: [CONDITION, …]}    all of them hold
//	{not: CONDITION}         it doesn't hold
//	{path: error.message, op: regex, value: "timed? out"}
//
// An empty object always holds. A path is names, joined by ".": of members, or the numbers of a list's elements,
// counted from
// 0. What isn't there is null. The operators; eq is the default:
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
// In strings \\, \' and \" are one character. "matches" and "contains" take a string that stands there.
//
// # What can't be compared
//
// gt, gte, lt and lte of values that are no two numbers and no two strings, a product of anything but numbers,
// contains and regex of what has no text (null aside, which has nothing in it), and a value alone that is neither true
// nor false have no answer. Holds takes that as false, where it stands: "not" makes true of it. Ask makes Unknown of
// it, by which a rule that only makes things stricter can apply, and one that allows something can not:
//
//	"refunds above 100 ask": asks if c.Ask(doc) != condition.No, and so asks about an amount of "120", or about none
//
// # Several names
//
// A value of the document may be Names: it equals each of them, and has the first as its text.
//
// # Limits
//
// 4,096 bytes of text, 1,000 comparisons, 16 levels, 1,000 bytes in a string to search for, 256 values in a list. RE2
// takes time in proportion to what is searched, which the caller bounds.
package condition
