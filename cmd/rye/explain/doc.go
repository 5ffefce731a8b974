// Package explain has the commands that explain a lock: why, tree and licences.
package explain
