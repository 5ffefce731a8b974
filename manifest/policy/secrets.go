package policy

import "github.com/rye-build/rye/manifest/policy/glob"

// MayHave reports whether an item may receive a secret: the root policy must name the secret for the item, and so must
// the project's policy if it has a section for secrets.
func MayHave(secret, item string, root, project *Policy) bool {
	n, err := glob.ParseName(item)
	if err != nil || !glob.MatchAny(root.secrets[secret], n) {
		return false
	}
	return project == nil || project.secrets == nil || glob.MatchAny(project.secrets[secret], n)
}
