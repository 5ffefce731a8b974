// Package adopt makes items of what comes from elsewhere: it plans the files, compares them with those of the space,
// and writes all or none.
//
//	plan := adopt.New(view, space, check)
//	made, err := plan.Skill(ctx, "skills", one, adopt.Origin{From: "https://acme.example/skills.zip"})
//	undo, err := plan.Write(ctx)
//
// How a call goes through here: Skill plans the items of a skill, and only plans the removal of files that the new
// version lacks. addFile and AddItem compare each file with the existing one, and refuse to replace an item that was
// not imported. Groups says what would be replaced, for a question. Then Write removes and writes the files, and
// undoes everything after an error.
package adopt
