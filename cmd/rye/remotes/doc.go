// Package remotes has the commands that push bundles to registries and pull them.
package remotes
