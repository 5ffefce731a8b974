package query

import (
	"slices"
	"strings"
)

// functionWords are the words of a question that say nothing of what it is about.
var functionWords = strings.Fields(
	"a about am an and any are as at be by can could did do does for from get has have how i if in into is it its " +
		"let like make me mean means my need not of on or our please should so some that the their them there these " +
		"they this to up use want was we what when where which who why will with without would you your")

// Loose returns the query that any of the words answers, without function words, and whether it had some of these:
// then it is a question, and no record is expected to have all of its words. It returns nil if q isn't several words
// that must all be there, or has only function words.
func (q *Query) Loose() (loose *Query, question bool) {
	if q == nil || q.Root == nil || q.Root.Op != And {
		return nil, false
	}
	var kids []*Node
	for _, n := range q.Root.Kids {
		switch {
		case n.Op >= And || n.Field != "":
			return nil, false
		case n.Op == Word && slices.Contains(functionWords, strings.ToLower(n.Words[0])):
			question = true
		default:
			kids = append(kids, n)
		}
	}
	if len(kids) == 0 {
		return nil, false
	}
	return &Query{join(Or, kids)}, question
}
