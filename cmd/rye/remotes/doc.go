// Package remotes has the commands that push bundles to OCI registries and image layouts, and pull them: bundle
// push and bundle pull.
package remotes
