// Package trusts has the commands for keys and policies: rye key new, list, show, export, import, rotate and
// remove, and rye trust add, list, revoke, remove and update.
//
// How a command goes through here: key commands open the user's key.Dir with paths.KeysDir and describe a key with
// openKeyLine or KeyLines. KeyNewRun.Run locks the user's space, and Make creates the key and, for the first one,
// the policy with TrustFirst. Trust commands that change a policy call paths.EditPolicy with a function that
// returns the new policy: trustAddRun.Run reads the key with key and adds it, rotate applies a rotation document.
// EditPolicy shows the difference, asks and writes. SigningKey opens the key for the commands that sign.
package trusts
