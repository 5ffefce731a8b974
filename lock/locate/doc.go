// Package locate finds the bundle that an argument names: by its id, with or without a version, by its digest, or by the
// path of an archive, of a manifest or of the directory of a project.
package locate
