package secret

import (
	"path"
	"strings"
)

// A Finding is the place of an apparent secret.
type Finding struct {
	Path         string
	Line, Column int    // from 1, the column in characters; 0 for a file name
	Rule         string // "file-name" or the name of a rule
	Excerpt      string // evidence without the secret
}

// Named returns a finding if a file's path indicates a secret.
func Named(file string) (Finding, bool) {
	finding := Finding{Path: file, Rule: "file-name"}
	lower := strings.ToLower(file)
	if named(lower[strings.LastIndexByte(lower, '/')+1:]) {
		finding.Excerpt = path.Base(file)
		return finding, true
	}
	if !strings.HasPrefix(lower, ".") && !strings.Contains(lower, "/.") {
		return Finding{}, false // nearly all files end here, without a copy of the path
	}
	lower = "/" + lower
	switch dir, name := path.Split(lower); {
	case inFolder(dir, name):
		finding.Excerpt = path.Base(file)
		return finding, true
	case strings.Contains(lower, "/.ai/keys/"):
		finding.Excerpt = ".ai/keys"
		return finding, true
	}
	return Finding{}, false
}

func named(name string) bool {
	switch name {
	case ".netrc", "_netrc", ".pgpass", ".htpasswd", ".git-credentials", ".dockercfg", ".vault-token", ".my.cnf",
		"kubeconfig",
		"credentials.json", "application_default_credentials.json",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk":
		return true
	}
	switch path.Ext(name) {
	case ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate", ".kubeconfig", ".env":
		return true
	case ".example", ".sample", ".template", ".dist":
		return false
	}
	return strings.HasPrefix(name, ".env.") || strings.HasPrefix(name, "client_secret") &&
		strings.HasSuffix(name, ".json")
}

func inFolder(dir, name string) bool {
	switch {
	case strings.HasSuffix(dir, "/.aws/"):
		return name == "credentials"
	case strings.HasSuffix(dir, "/.docker/"):
		return name == "config.json"
	case strings.HasSuffix(dir, "/.kube/"):
		return name == "config"
	case strings.Contains(dir, "/.gnupg/"):
		return true
	case strings.Contains(dir, "/.ssh/"):
		return name != "config" && name != "known_hosts" && name != "authorized_keys" && path.Ext(name) != ".pub"
	}
	return false
}
