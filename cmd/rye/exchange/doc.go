// Package exchange has the commands that exchange skills with other programs: "rye import skill", "rye import
// agents", "rye export skill" and "rye export directive".
//
// How an import goes through here: importSkillRun.Run reads the skills of the source (read), keeps those of --only
// (selected) and plans the items of each (plan): writer.only plans the removal of files that the new version lacks,
// addFile and addItem compare every file with what the project has. confirm shows what would be replaced and asks,
// then write writes all files, items last, or undoes everything. An export to a client goes from toClient to
// client.Place.Install or Remove, which own the list .ai/installed.yaml.
package exchange
