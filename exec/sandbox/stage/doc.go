// Package stage is the second stage of a sandbox on Linux: the process between rye and a program that it confines.
//
// The stage is rye's own binary, started again. Initialising all packages of rye takes longer than everything the
// stage does, so it is entered by a variable's initial value, which Go computes as soon as the packages that this one
// imports are initialised. For that to be early, it imports only os and what os imports: no fmt, strings, strconv or
// golang.org/x/sys. What the stage needs to know is computed by the process that starts it and sent in a Plan.
package stage

// Word is the one argument that starts a program that imports this package as a stage.
const Word = "__stage"
