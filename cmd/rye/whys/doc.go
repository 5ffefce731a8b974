// Package whys has the commands that explain a lock: why and tree.
package whys
