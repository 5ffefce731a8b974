// Package initcmd has the commands for the first day: init, doctor, docs, config, schema and completion.
package initcmd
