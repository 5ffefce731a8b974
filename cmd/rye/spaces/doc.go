// Package spaces shows commands the items that are visible from here, whether they are valid, and what a name means.
package spaces
