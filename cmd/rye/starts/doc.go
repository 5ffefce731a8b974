// Package starts has the commands for the first day: init, demo, doctor, docs, config, schema and completion.
package starts
