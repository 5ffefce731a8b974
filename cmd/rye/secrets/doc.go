// Package secrets has the commands that manage the secrets of tools: auth set, auth login, auth list and auth
// remove.
//
// How a command goes through here: for rye auth set, authSetRun.Run opens this user's store of secrets with
// paths.Secrets and checks the name with nameOf. value reads the value from a file, standard input or the terminal,
// and Store.Set puts it into the keyring or an encrypted file. The answer is a secretLine, which never has the
// value. authLoginRun.Run gets the value by OAuth instead.
package secrets
