// Package exchange has the commands that exchange skills with other programs: "rye import skill", "rye import
// agents", "rye export skill" and "rye export directive".
//
// How an import goes through here: importSkillRun.Run reads the skills of the source (read), keeps those of --only
// (selected) and plans the items of each (Writer.Skills, package adopt). Confirm shows what would be replaced and
// asks, then Write writes all files or undoes everything. "rye add" writes skills of servers by the same Writer. An
// export to a client goes from toClient to
// client.Place.Install or Remove, which own the list .ai/installed.yaml.
package exchange
