// Package cli is the frame of the commands: the table of commands, the grammar of the command line, help, the
// terminal, JSON replies, and App, the surroundings of a command. It has the commands "rye help" and "rye version".
//
// Standard output carries data; standard error carries notes, warnings and errors. A command is a Command in the
// table of package main; its Runner has the flags and arguments as fields, does the work and returns an Answer.
//
// How a command line goes through here: Start hands it to Run, which reads it with Parse. Narrow chooses the
// commands that kong builds a model for (NewGrammar); a wrong word becomes an error with a suggestion (usageFault).
// NewApp checks the global flags and variables. Then Runner.Run does the work, and Terminal.Finish prints the
// Answer or the error and returns the exit status.
package cli
