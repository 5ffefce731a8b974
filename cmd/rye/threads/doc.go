// Package threads has the commands that need only the transcript of a thread.
package threads
