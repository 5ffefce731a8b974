// Package catalogs has the commands about other people's tool servers: rye mcp add and what follows it.
//
// Only a person at the command line adds, accepts and removes. The functions that tools may call (package functions)
// list, show and test.
package catalogs
