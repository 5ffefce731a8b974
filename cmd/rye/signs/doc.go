// Package signs has the commands for signatures: rye sign, rye verify and rye trust check.
//
// How a command goes through here: for rye sign, SignRun.Run checks the flags. With --as, signFile signs one file
// under a name. Otherwise SignWithin answers from the cache with again, or signAll signs: selected finds the items,
// a check.Checker checks them all, refused returns their problems, and finish signs each item with one and replaces
// all files in one batch. For rye verify, VerifyRun.verify examines one file under --as, or verifyItems the items:
// verifyItem builds the subject and calls signing.Verify, and newReport counts. Meet wraps commands of other
// packages and asks the user about unknown signers.
package signs
