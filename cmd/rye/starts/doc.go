// Package starts has the commands for the first day: init, doctor, docs, config, schema and completion.
package starts
