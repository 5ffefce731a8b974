// Package key is the keys of rye: public and private halves, their forms, and directories of them.
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
// A Public is 32 bytes that are worth trusting: the canonical encoding of a point on the curve, and not one of
// the eight points of small order, for which one signature holds for many messages. Whatever else comes in by
// any door, as text, as PEM or as raw bytes, is a *RefusedError. Its forms are
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
// v1 is what signature lines of the first format call a key: the first 16 hexadecimal digits of the SHA-256
// of the PEM, line ends included. At 64 bits it finds candidates and says nothing about which key it is.
//
// # Signatures
//
// Verify takes what crypto/ed25519 takes (64 bytes, S below the group order, R the very bytes that result),
// except an R of small order, which no signer makes. What it takes has no second spelling.
//
// # Private keys
//
// A Private is the seed of RFC 8032, written as PKCS#8 with nothing optional:
//
//	-----BEGIN PRIVATE KEY-----
//	MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
//	-----END PRIVATE KEY-----
//
// Readers of PEM take line ends of either kind and white space around it, since keys travel through editors
// and variables, and nothing else: one block, no headers, this one encoding.
//
// With a passphrase, the file is that PEM in an age file (age-encryption.org/v1) with its one scrypt
// recipient, in age's armor: "age -d" opens it. We write work factor 17, 128 MiB of memory for a moment, and
// read up to 18, what the age command writes.
//
// # Directories of keys
//
// A Dir is a directory, mode 0700, of
//
//	private_key.pem   public_key.pem      the key "default": where rye 1 keeps its one key
//	NAME.private.pem  NAME.public.pem     any other; private halves have mode 0600
//	default                               the name of the key that signs when none is named, and LF
//
// NAME is a lower-case letter or digit and up to 63 of those, "-" and "_". The private half is the key: the
// public one is a copy that can be read without the passphrase, and is checked against the private one
// whenever that is opened. On Unix everything must belong to the user who asks; symbolic links, other types of
// files and private halves that others may read are refused, as a *ModeError, before a byte is read. Windows
// has no such modes, and there is no check there.
//
// A file is written beside its place, made durable, and then named: a reader finds a whole file or none, and
// of two processes that make a key of one name, one fails with fs.ErrExist. The private half is named first.
// If the process dies before the public one is, opening the private half makes it.
package key
