// Package functions has what tools may have rye do: it does what a command does, for a tool of the library.
package functions
