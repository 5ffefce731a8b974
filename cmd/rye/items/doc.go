// Package items has the commands for single items: "rye new", ls, show, load, mv, rm, search and check.
//
// How a change goes through here: spaces.OpenItems opens the items that this user sees. newRun.Run makes the item
// from a template or a file (draft), takes the signing key, locks the space (aloneWith) and writes the file with
// its signature; afterwards warns if the new item can't run, isn't trusted or hides another one. mv and rm work
// alike: they plan (mvRun.plan, rmRun.selected), show what names the old id (mentions), ask if need be, and change
// the space. show and ls only read: describe and line fill in what an answer shows of an item.
package items
