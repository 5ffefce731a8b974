// Package landlock makes Landlock rulesets: which files a program may read or write, and which ports it may connect
// to. Versions are those of the kernel's interface; every right that a version knows is handled.
package landlock
