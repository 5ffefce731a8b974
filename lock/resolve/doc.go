// Package resolve is the version solver: it selects one version of every bundle that a project uses.
//
// How a call goes through here: Resolve reads the project's requirements (edges) and calls solve. settle repeats
// rounds of demand, which takes the highest floor of each bundle, until the selection is stable; node asks the
// Sources for versions, and needs for their requirements. check and cycles return problems, for which solve gives up
// kept versions. update then raises the bundles of an update one by one (updateOne).
//
// It is a pure function of the project's requirements, of the existing versions and their requirements, and of the
// versions selected before. It uses no file, network, signature or lock; the caller has those and provides Sources.
//
// # Selection
//
// There is one version of each bundle. A requirement is a range; its floor is the least existing version in the
// range. The version of a bundle is the highest floor of all requirements in force: those of the project, and those
// of the selected versions. So no version is newer than a requirement asks for, a new release changes nothing, and
// the order of the requirements doesn't matter.
//
//	the project needs      web ^1.2      log ^1.0
//	web 1.2.0 needs        log ^1.4
//	there are              log 1.0.0, 1.4.0, 1.5.0, 2.0.0      web 1.2.0, 1.3.0
//	chosen                 web 1.2.0     log 1.4.0
//
// The solver works in rounds. The first uses only the project's requirements; each further round uses the
// requirements of the previous round's versions, all at once, until a round changes nothing. Versions can alternate
// without end (a newer one needs less, so that it isn't needed any more): after 1,000 rounds the solver starts over
// and never lowers a version, so that this ends too.
//
// Then every requirement in force must contain the selected version. Otherwise the result is a *ConflictError with
// two paths from the project to the bundle: one to the requirement for this version, and one to a requirement that
// excludes it. Other versions are not tried: an unpredictable answer is worse than an error that names the two lines
// to change. A requirement that no version meets is a *NoVersionError, with the path to another requirement that a
// version meets, if any. Bundles that need each other in a circle are a *CycleError. Several errors of a kind are
// joined, the nearest to the project first; conflicts are reported only if every bundle has a version, and circles
// only without conflicts.
//
// Versions that differ only in build metadata are ordered by their bytes.
//
// # Kept versions
//
// A kept version replaces the floor of every requirement that contains it. The solver gives it up if a requirement
// excludes it or no solution has it, and gives up others only if that isn't enough. So solving again with a kept
// solution returns the same solution.
//
// An update raises a bundle to the newest version that all requirements in force contain and that has a solution, and
// keeps the other versions where possible. Updating all bundles does that with each, the nearest to the project
// first, until nothing changes.
//
// # Limits
//
// At most 10,000 bundles, of each 10,000 versions, of each 4,096 requirements; no bundle is more than 100
// requirements away from the project; and a solution takes no more than 200 million steps. Beyond that the error is
// LIMIT_EXCEEDED.
package resolve
