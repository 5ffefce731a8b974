// Package runs has the commands that run tools: exec, test, build and auth.
package runs
