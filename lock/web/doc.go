// Package web is an https client that limits where an address may lead and how much it may return.
//
// How a call goes through here: Client.Get parses the address (parse) and returns a fetch as a reader. Each try
// (once) follows redirects step by step (start, step, follow): request dials only addresses that mayDial allows, and
// open checks the header. The body counts bytes and time. If it breaks, fetch pauses, requests the file again, skips
// the bytes already read (skip), and compares them.
//
// All of rye's downloads go through it. It trusts neither the name service, nor the server, nor its redirects. The
// caller checks digests and signatures. Nothing is cached: a caller that has kept a file asks with its ETag (GetIf),
// and then no bytes come while the file is unchanged.
//
//	client := web.New(web.Options{})
//	file, size, err := client.Get(ctx, "https://bundles.acme.example/revoked.yaml", 64<<20)
//
// # Addresses
//
// https, or http to this machine (localhost, 127.0.0.0/8, ::1), of at most 4,096 bytes of ASCII; no user or password,
// no fragment, no zone, a port from 1 to 65535. A name in another script must be in its ASCII form, so that readers
// see the requested name. The same rules hold for redirects.
//
// # Redirects
//
// 301, 302, 303, 307 and 308 are followed, at most 5 times. No cookies, no passwords and no referrer are ever sent. A
// token goes with the addresses for which the caller has one (Options.Token), and never where a redirect leads.
//
// # Where a name may lead
//
// A server's address is public, private, local (this machine or its link), or unusable (multicast, unspecified,
// reserved). IPv4 inside IPv6 (mapped, translated by NAT64, 6to4) counts as the IPv4 address. The address is checked
// when it is dialled, after the last DNS lookup, so that a changing answer (DNS rebinding) gains nothing:
//
//   - Addresses of this machine and its link (127.0.0.1, ::1, 169.254.169.254, fe80::1) are dialled only if the
//     address given is that number, or localhost: then its author meant it. A name that leads there is refused.
//   - Private networks (10.0.0.1, fd00::1) may be where the address given leads: that is a company's own server. Its
//     certificate has to be for the name, so a stranger's name can't borrow such a server's answers.
//   - A redirect never leads further inside than the way was at any step before it: from a public server to public
//     ones alone, from a private one to private and public ones. From this machine it leads to the same host and port
//     again, or outwards.
//
// With Options.Stranger, an address that another person wrote, as in a cloned project, is treated like a redirect
// from a public server: it never leads inside. The exception are hosts that the user has named (Options.Inside): an
// address there is the user's own.
//
// A proxy resolves the name itself, so that rye does not see the address. Such a step counts as public, and redirects
// to numbers that aren't are refused as well. The proxy is the user's and may be anywhere.
//
// # Limits
//
//   - Size: the caller's. A server that announces more is left at once, one that sends more at the limit. A body that
//     is shorter than announced is an error and never an end; one that announces no length has to come in chunks,
//     since the end of a connection is anybody's to make. Bytes that follow the announced end are not read.
//   - Form: the bytes themselves. A Content-Encoding is refused: a few bytes that unpack to many are no small file.
//   - Time: 15 s to connect and as many for TLS, 30 s to the end of the header lines, an hour for everything; and each
//     16 KiB of the body within 30 s of waiting for it. The time in which the caller doesn't read isn't counted, but
//     for the hour.
//   - Header lines: 64 KiB. TLS: 1.2 at least. HTTP/1.1, one connection for each request, closed behind it: what a
//     server sends unasked on an idle connection net/http would write to the standard logger, in the user's terminal.
//
// # Retries
//
// Temporary errors are retried twice: an overloaded or restarting server, a broken connection, a failing name
// service. The pauses are 250 ms and 1 s, or the server's Retry-After of at most 10 s. A broken body is retried too:
// the bytes that the caller has are read again and must be the same, because a file that changes meanwhile is neither
// the old one nor the new one. Permanent errors aren't retried: another status, an unknown name, an invalid
// certificate, an unreachable host. StatusError has the server's Retry-After.
//
// Errors show addresses without secrets: the values of a query, a user and password.
package web
