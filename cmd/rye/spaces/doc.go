// Package spaces opens the items that are visible to a command, checks them, completes their names, and holds the
// keys that a command trusts.
//
// How a command goes through here: OpenItems opens the workspace and, with ItemsOf, its items. Selected, Find and
// Load of the embedded items.Items find what arguments name. Check answers from the cache or checks the items with
// all rules. SignerFlags.Vouching returns the policy, or the keys of --signer.
package spaces
