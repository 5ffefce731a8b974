// Package cli is the frame of the commands: the table of commands, the grammar of the command line, help, the
// terminal, JSON replies, and App, which is what a command works with.
//
// Standard output carries data, standard error carries narration. A command is a Command in the table of package main;
// its Runner has the flags and arguments, calls a room and returns an Answer.
package cli
