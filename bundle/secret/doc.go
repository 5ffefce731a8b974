// Package secret scans files for keys, tokens and passwords, which must not be published with a bundle. It checks
// names and content.
//
// Findings are most likely secrets, so that people take them seriously; a file without findings may still have
// secrets. A Finding never holds any part of the secret: Excerpt has the fixed prefix of such a token, or the name
// that the value is assigned to.
//
// # How a file goes through here
//
// Named checks the path. Scanner.Scan reads the content in pieces; look skips to places where a rule, an assignment
// or a PEM block may begin (skip), and checks them with rule.match, privateKey, urlPassword or assigned. add
// records a Finding.
//
// # Names
//
//	.env, .env.*, *.env            but not .env.example, .sample, .template, .dist
//	id_rsa, id_dsa, id_ecdsa, id_ed25519, and with _sk
//	.netrc _netrc .pgpass .htpasswd .git-credentials .dockercfg .vault-token .my.cnf kubeconfig *.kubeconfig
//	credentials.json, application_default_credentials.json, client_secret*.json
//	.aws/credentials .docker/config.json .kube/config .gnupg/** .ssh/** but *.pub, config, known_hosts
//	*.p12 *.pfx *.jks *.keystore *.kdbx *.ppk *.tfstate
//	.ai/keys/**
//
// Case doesn't count. Other files, such as *.pem, *.key and .npmrc, are recognized by their content.
//
// # Shapes
//
//	private-key      the line that begins a PEM private key, with enough base64 after it; escaped line ends too;
//	                 base64 of all that, as in Kubernetes; a file in DER (PKCS #8, PKCS #1, SEC 1); a key of
//	                 PuTTY
//	aws, github, …   tokens with a known prefix (see rules): the right characters, long enough, and random:
//	                 8 consecutive letters of the alphabet or digits mark an example
//	url-password     scheme://user:password@host, in text: compressed files look like it by chance
//	assignment       a value assigned to a name that ends in password, secret, token, api key or the like, quoted, or
//	                 without quotes in configuration files. A password needs 8 characters of three classes,
//	                 others 16 with letters and digits; both must be random. A variable's name or an example
//	                 is no secret. The member "d" of a JSON web key is one, too.
//
// Text in UTF-16 is scanned as well, with or without a byte order mark. Each file is read once, in pieces: memory
// doesn't grow with it. A file has at most MaxFindings findings.
package secret
