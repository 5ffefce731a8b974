// Package registries has the commands that speak with a registry of bundles: publish, yank, unpublish, owner,
// release, info, login, logout, whoami and registry token.
//
// How a command goes through here: its flags name a registry, or the project's rye.yaml does (at). open returns a
// session with the account's token, which the environment or the secrets of this user have. The command calls one
// method of the session and shows the answer. publishRun first writes the archive of the bundle to a temporary file,
// and shows what it would send.
package registries
