// Package receipt proves to third parties what a call used and produced.
//
// A receipt is an in-toto Statement in a DSSE envelope (package attest), signed by a machine:
//
//	{
//	  "_type": "https://in-toto.io/Statement/v1",
//	  "subject": [{"name": "tool:demo/hi", "digest": {"blake3": "c4e5…"}}, {"name": "result", "digest": {"blake3": "0f1a…"}}],
//	  "predicateType": "https://github.com/rye-build/rye/receipt/v1",
//	  "predicate": {
//	    "begin": "2026-11-20T12:00:00.000Z",
//	    "call": {…},
//	    "children": [{"call": "b", "receipt": "blake3:…"}],
//	    "end": "2026-11-20T12:00:01.500Z",
//	    "id": "a",
//	    "log": {"line": 12, "segment": "20261120T120001Z-0123456789abcdef", "sum": "blake3:…"},
//	    "machine": {"key": "sgGN…", "voucher": {…}},
//	    "outcome": {…}
//	  }
//	}
//
// written as JCS. Call and outcome are those of package record; the subjects are the item and, if there is one, the
// result. Children are the calls that the call made, with the digests of their receipts' bytes, so that one receipt
// proves a whole tree (VerifyTree). "log" is the position of the call's first line in the audit log: audit.Verify
// checks that the log still has it. Children, log and voucher may be missing.
//
// Verify needs the receipt and a public key: the machine's, or that of a user who vouches for it, since the receipt
// includes the voucher. It accepts exactly the bytes that New writes.
//
// How a receipt goes through here: New checks the receipt, encodes it (payload), and signs the envelope. Verify reads
// the envelope, parses the payload and the voucher in it (parse), and checks the signature by the machine's key or the
// user's behind the voucher (CheckVoucher). VerifyTree does so for each child, whose bytes a function brings.
//
// # The machine's key
//
// Checkpoints of the audit log and receipts are signed without a person to enter a passphrase. So each machine
// has, for each user, a key without one, in a directory of its own (package key) under the name "machine". No policy
// names that key, and its signatures count only if a user vouches for it: the user's key once signs a statement about
// it,
//
//	{
//	  "_type": "https://in-toto.io/Statement/v1",
//	  "subject": [{"name": "build-7", "digest": {"blake3": "6c31…"}}],
//	  "predicateType": "https://github.com/rye-build/rye/machine/v1",
//	  "predicate": {"at": "2026-11-20T12:00:00Z", "key": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
//	}
//
// in a DSSE envelope (package attest): the voucher, which travels in every receipt and in the log. The subject's
// digest is the key's fingerprint, its name is what people call the machine. Who holds the user's public key, or the
// machine's, can check what the machine signed, with nothing else.
package receipt
