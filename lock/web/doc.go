// Package web answers: what stands at this https address, and no more of it than was asked for?
//
// It is the one place of rye that fetches. It trusts neither the name service nor the server nor
// what that redirects to. The caller checks digests and signatures of what was fetched. Nothing is cached.
//
//	client := web.New(web.Options{})
//	file, size, err := client.Get(ctx, "https://bundles.acme.example/revoked.yaml", 64<<20)
//
// # Addresses
//
// https, or http to this machine (localhost, 127.0.0.0/8, ::1), of at most 4,096 bytes of ASCII; no user or password,
// no fragment, no zone, a port from 1 to 65535. A name in another script is written in its ASCII form, so that what is
// read is what is asked for. This holds for the address given and for every one that a server sends to.
//
// # Redirects
//
// 301, 302, 303, 307 and 308 are followed, at most 5 times. No credentials are ever sent: no cookies, no passwords, no
// referrer. A token, if one is ever added, goes to its own host only, and never to one that a redirect names.
//
// # Where a name leads
//
// A server's address is public, of a private network, of this machine or its link, or of nothing that answers
// (multicast, unspecified, reserved). IPv4 inside IPv6 (mapped, translated by NAT64, 6to4) counts as what is inside.
// The address is looked at when it is dialled, after the last question to the name service, so that a name that
// answers otherwise the second time gains nothing:
//
//   - Addresses of this machine and its link (127.0.0.1, ::1, 169.254.169.254, fe80::1) are dialled only if the
//     address given is that number, or localhost: then its author meant it. A name that leads there is refused.
//   - Private networks (10.0.0.1, fd00::1) may be where the address given leads: that is a company's own server. Its
//     certificate has to be for the name, so a stranger's name can't borrow such a server's answers.
//   - A redirect never leads further inside than the way was at any step before it: from a public server to public
//     ones alone, from a private one to private and public ones. From this machine it leads to the same host and port
//     again, or outwards.
//
// An address that another person wrote, as in a cloned project, is treated like a redirect from a public
// server, if the caller says so (Options.Stranger): it never leads inside, whatever it is. But for the hosts that the
// user has named (Options.Inside): an address there is the user's own.
//
// A proxy looks the name up itself, so that rye does not see where it leads. Such a step counts as
// public, and redirects to numbers that aren't are refused as well. The proxy is the user's and may be anywhere.
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
// # What passes
//
// A server that is overloaded or starts anew, a connection that breaks, a name service that says it is out of order:
// such a thing is tried again, twice, after 250 ms and 1 s, or after what the server asks for, if that is no more than
// 10 s. So is the rest of a body: what the caller has already is read once more and must be the same, for a file that
// changes meanwhile is neither the old one nor the new one. What won't pass isn't tried again: another status, an
// unknown name, a certificate, a host that can't be reached. StatusError says when a server wants to be asked again.
//
// Errors show addresses without what could be secret: the values of a query, a user and password.
package web
