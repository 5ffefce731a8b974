// Package session makes a workspace ready for calls: what they run from, and the kernel that runs them. Every door
// (the command line, servers, threads) uses it.
package session
