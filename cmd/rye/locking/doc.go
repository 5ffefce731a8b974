// Package locking opens a project together with its lock, its store and the bundles that it uses.
package locking
