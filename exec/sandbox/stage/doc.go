// Package stage is the second stage of a sandbox on Linux: the process between rye and a program that it confines.
//
// The stage is rye's own binary, started again. Initialising all packages of rye takes longer than the stage's whole
// work. So a variable's initial value enters the stage: Go computes it as soon as the imports of this package are
// initialised. For that to be early, this package imports only os and the imports of os: no fmt, strings, strconv or
// golang.org/x/sys. The process that starts the stage computes everything that it needs, and sends it in a Plan.
//
// # How a run goes through here
//
// enter calls Main, which receives the Plan. stage.run makes the place (makePlace, listen, Top.layOut, Mount.mount),
// prepares the launch (prepare) and forks (launch.run); launch.fork restricts itself and executes the program. watch
// enforces the limits, obey waits for the caller's end, reap waits for every process, top.finish brings what was made
// in a Top to the real directory, and result becomes the last Report.
package stage

// Word is the argument that makes a program that imports this package a stage.
const Word = "__stage"
