// Package secret is a user's secrets, which tools ask for by name: passwords, tokens, keys of services.
//
// # How a secret goes through here
//
// Store.Set checks a value and keeps it in the keyring (asked) or, encrypted, in the file (change, write, encrypt).
// Store.Get returns the variable of our own environment if it is set (Given), else the value of the keyring or of the
// file (read), unless it has expired. Seal and Unseal encrypt other files of the state directory with the same key.
//
// A name is letters, digits, ".", "_" and "-", at most 64, as tools and policies have it. Its variable is the name in
// capitals, with "_" for "." and "-": acme-token is ACME_TOKEN. That is what the value is called in an environment,
// ours and a tool's, so it can't be one that package env reserves. A value is text in UTF-8 without NUL, of MinValue
// to MaxValue bytes: package redact can't remove shorter values from a tool's output, so tools don't get them.
//
// # How a secret goes through here
//
// Store.Get looks in the environment (Given), then in the file (read), and for a value in the keyring calls it with a
// time limit (asked). Store.Set and Remove edit the document under a lock (change) and replace the file (write,
// encrypt).
//
//	secrets.age   a record of each secret, and the values that no keyring has; encrypted
//	identity      the key to that, an X25519 identity as the age program reads it
//	lock          is locked by who changes one of the others
//
// A non-empty variable in rye's own environment takes precedence. Otherwise the value is in the system's keyring, if
// there was one when it was set, or else in a file. The keyring has it under the service "rye" and the name. The
// file's directory, mode 0700, contains
//
//	secrets.age   the list of secrets, and the values that no keyring has; encrypted
//	identity      the key to that, an X25519 identity in the age program's format
//	lock          locked while a process changes one of the others
//
// of mode 0600. On Unix all of them must belong to the user, and be inaccessible to others; otherwise, and for
// symbolic links, the store refuses to read a single byte. A file is written under another name, synced, and then
// renamed: a reader finds the old file or the new one.
//
// The encryption protects values in a copy of secrets.age alone, as in a backup, and from searches of the disk. It
// does not protect them from programs that read as this user, since the key is in the same directory. A keyring does,
// if it asks before it opens.
//
// # The file
//
// Decrypted it is one line of JSON in canonical form (package jcs), secrets sorted by name, without fields that are
// empty:
//
//	{"format":"rye-secrets/1","secrets":[{"expires":"2027-01-31T00:00:00Z","from":"terminal","keyring":true,
//	"name":"acme-token","set":"2026-11-22T12:00:00Z"},{"from":"file","name":"other","set":"2026-11-22T12:00:00Z","value":"s3cr3t"}]}
//
// It has at most MaxSecrets secrets. A file that can't be decrypted and parsed, or isn't in canonical form, is an
// error, and is never treated as empty.
package secret
