// Package key defines the keys of rye: public and private halves, their forms, and directories of them.
//
// All keys are Ed25519 (RFC 8032).
//
// # How a call goes through here
//
// Dir.Add writes both halves of a key, the private one as PEM or, with a passphrase, as an age file (Lock).
// Dir.Private checks the directory and the file's mode, parses it (ParsePrivatePEM, or Unlock), and compares both
// halves; Sign signs. Every Public comes from NewPublic, which checks the point (checkPoint); Verify checks a
// signature.
//
// # Public keys
//
// A Public is 32 bytes that are worth trusting: the canonical encoding of a point on the curve, and not one of the
// eight points of small order, for which one signature holds for many messages. All readers, of text, PEM or raw
// bytes, return an error for anything else. Its forms are
//
//	text         11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo
//	fingerprint  6c31041268f471609c79f5f2dbcc38e4a4ab2f4d416109a4e09fcf50fd0f0062
//	v1           7f2d9ed0b71b8e5a
//	PEM          -----BEGIN PUBLIC KEY-----
//	             MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
//	             -----END PUBLIC KEY-----
//
// The text is base64url without padding, 43 characters whose unused bits are zero. The fingerprint is the
// BLAKE3-256 of the 32 bytes in lower-case hexadecimal digits: it is computed, never believed. The PEM is
// SubjectPublicKeyInfo, in one line of base64.
//
// v1 names a key in signature lines of the first format: the first 16 hexadecimal digits of the SHA-256 of the PEM,
// line ends included. With 64 bits it finds candidates but doesn't identify a key.
//
// # Signatures
//
// Verify accepts the signatures that crypto/ed25519 accepts (64 bytes, S below the group order, R exactly the
// computed bytes), except an R of small order, which no signer makes. So an accepted signature has no second
// spelling.
//
// # Private keys
//
// A Private is the seed of RFC 8032, written as PKCS#8 with nothing optional:
//
//	-----BEGIN PRIVATE KEY-----
//	MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
//	-----END PRIVATE KEY-----
//
// Readers of PEM accept both kinds of line ends and white space around the block, because keys pass through editors
// and variables. They accept nothing else: one block, no headers, this one encoding.
//
// With a passphrase, the file is that PEM in an age file (age-encryption.org/v1) with one scrypt recipient, in
// age's armor: "age -d" opens it. We write work factor 17, which takes 128 MiB of memory for a moment, and read up
// to 18, which the age command writes.
//
// # Directories of keys
//
// A Dir is a directory, mode 0700, of
//
//	private_key.pem   public_key.pem      the key "default": where rye 1 keeps its one key
//	NAME.private.pem  NAME.public.pem     any other; private halves have mode 0600
//	default                               the name of the key that signs when none is named, and LF
//
// NAME is a lower-case letter or digit and up to 63 of those, "-" and "_". The private half is the key. The public
// half is a copy that can be read without the passphrase; Dir.Private compares it with the private half. On Unix
// everything must belong to the current user. Symbolic links, other types of files, and private halves that others
// may read are refused before a byte is read (osfile.UnsafeError). Windows has no such modes, so nothing is checked
// there.
//
// A file is written under a temporary name, made durable, and then renamed: a reader finds a whole file or none,
// and of two processes that create a key with the same name, one fails with fs.ErrExist. The private half gets its
// name first. If the process dies before the public half is written, opening a locked private half writes it.
package key
