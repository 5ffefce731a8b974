// Package initcmd has the commands for the start: "rye init", doctor, docs, config, schema and completion, and the
// hidden __complete that completion scripts call.
//
// How rye init goes through here: initRun.Run checks the directory (place), and project finds the files that are
// missing (missingFiles) before it writes any. With --ci, pipeline compares the files of a service with the
// library's templates (changedFiles), shows differences and asks (confirmReplace). identity creates a key and a
// policy if the user has none. rye doctor runs checks one after another, and each returns a paths.Finding;
// completeRun.Run walks the typed words through kong's model (walk) and offers candidates for the last one
// (offered).
package initcmd
