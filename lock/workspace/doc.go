// Package workspace opens a project: its root, rye.yaml, policies, spaces, store and lock, found by a struct of paths.
// The command line and every server use it; nothing in it reads the environment, a flag, or a file that the paths
// don't lead to.
package workspace
