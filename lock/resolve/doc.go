// Package resolve answers: which version of every bundle does this project use?
//
// It is a pure function of what the project requires, of the versions that there are and what each of them requires,
// and of what was chosen before. It knows no file, no network, no signature and no lock; the caller, which has those,
// gives it Sources, and asks them about what was chosen.
//
// # What is chosen
//
// There is one version of each bundle. A requirement is a range; its floor is the least version that there is in the
// range. The version of a bundle is the highest floor of all requirements in force: those of the project, and those
// of the versions that are chosen. So no version is newer than a requirement asks for, a new release
// changes nothing, and the order of the requirements doesn't matter.
//
//	the project needs      web ^1.2      log ^1.0
//	web 1.2.0 needs        log ^1.4
//	there are              log 1.0.0, 1.4.0, 1.5.0, 2.0.0      web 1.2.0, 1.3.0
//	chosen                 web 1.2.0     log 1.4.0
//
// It is found in rounds. The first knows only what the project requires; each following one takes what the versions
// of the round before require, all at once, until a round says what the one before said. Versions can chase each
// other without end (a newer one needs less, so that it isn't needed any more): after 1,000 rounds it is begun again,
// and no version goes down, so that this ends too.
//
// Then every requirement in force must contain the version that was chosen, whatever its floor was. If one doesn't,
// that is a *ConflictError with two ways from the project to the bundle: one that asks for so much, and one that
// doesn't allow it. Other versions are not tried: an unpredictable answer is worse than an error that names the two
// lines to change. A requirement that no version meets is a *NoVersionError, which has the way to another that one
// meets, if there is one: then there is no solution with both. Bundles that need each other in a circle are a
// *CycleError. Several of a sort come joined, the nearest to the project first; conflicts are told when there is a
// version for everything, and circles when there is no conflict.
//
// Versions that differ in build metadata alone stand in the order of their bytes.
//
// # What was chosen before
//
// A version that is to be kept is the floor of every requirement that contains it, instead of the least one. If a
// requirement excludes it, or there is no answer with it, it is given up, and others only when that isn't enough. So
// an answer that is kept is the answer again.
//
// An update brings a bundle to the newest version that all requirements in force contain and for which there is an
// answer, and keeps of the others what can be kept. To update all is to do that with each, those nearest to the
// project first, until nothing changes.
//
// # Limits
//
// At most 10,000 bundles, of each 10,000 versions, of each 4,096 requirements; no bundle is more than 100 requirements
// away from the project; and an answer takes no more than 200 million steps. Beyond that the error is LIMIT_EXCEEDED.
package resolve
