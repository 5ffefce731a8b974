// Package runs has the commands that run tools and directives: exec, run, thread resume and test.
package runs
