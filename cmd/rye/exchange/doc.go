// Package exchange has the commands that take in what others write and give it back: import and export.
package exchange
