// Package prune has the commands that remove what has grown old: records of threads and segments of the audit log.
package prune
