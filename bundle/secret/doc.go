// Package secret is a scanner for keys, tokens and passwords, which must not be published with a bundle. It goes by
// the names and the content of files.
//
// It is a net, not a proof. What it finds is most likely a secret, so that people keep looking when it speaks; that
// it finds nothing says little. A Finding never holds the secret, not even a part of it: Excerpt has the fixed
// letters that such a token begins with, or the name that a value was given to.
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
// Case doesn't count. Other files, such as *.pem, *.key and .npmrc, are known by what is in them.
//
// # Shapes
//
//	private-key      the line that begins a PEM private key, with enough base64 after it; escaped line ends too;
//	                 base64 of all that, as Kubernetes keeps it; a file in DER (PKCS #8, PKCS #1, SEC 1); a key of
//	                 PuTTY
//	aws, github, …   tokens with a beginning of their own (see rules): of the right letters, long enough, and as
//	                 mixed as what is drawn by lot: 8 letters or digits in a row of the alphabet are an example
//	url-password     scheme://user:password@host
//	assignment       a value given to a name that ends in password, secret, token, api key and the like, in quotes,
//	                 or without them in files that hold settings. A password needs 8 characters of three classes,
//	                 anything else 16 with letters and digits, both as mixed as above. What names a variable, or says
//	                 that it is an example, is none. The member "d" of a JSON web key is one too.
//
// Text in UTF-16 is looked through as well, with a byte order mark or without. Files are read once, in pieces; memory
// doesn't grow with them, and of one file at most MaxFindings are told.
package secret
