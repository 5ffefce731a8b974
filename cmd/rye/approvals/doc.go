// Package approvals has the commands that list and answer requests for approvals.
package approvals
