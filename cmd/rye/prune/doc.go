// Package prune has the command that removes the records of old threads: thread prune.
package prune
