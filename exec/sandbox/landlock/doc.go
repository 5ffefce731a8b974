// Package landlock makes Landlock rulesets: the files that a program may read or write, and the ports that it may
// connect to. Versions are those of the kernel's interface; a ruleset handles every right that its version has.
package landlock
