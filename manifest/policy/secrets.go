package policy

import "github.com/rye-build/rye/manifest/policy/glob"

// MayHave reports whether an item may be handed a secret: the root policy must name it for the item, and the
// project's, if there is one and it says anything about secrets, as well.
func MayHave(secret, item string, root, project *Policy) bool {
	n, err := glob.ParseName(item)
	if err != nil || !glob.MatchAny(root.secrets[secret], n) {
		return false
	}
	return project == nil || project.secrets == nil || glob.MatchAny(project.secrets[secret], n)
}
