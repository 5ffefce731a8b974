// Package paths is the context of commands, made from flags and environment variables: the project, the policies, the
// keys, the store and the caches.
//
// How a command goes through here: Paths turns flags and variables into the paths of a workspace, and Options into its
// options. OpenWorkspace and OpenLock open them for a command. OpenTrust, ReadStore, MakeStore and Keys open the
// single parts, and Alone locks the project against other processes.
package paths
