// Package items has the commands for single items: new, ls, show, load, mv, rm and search.
package items
