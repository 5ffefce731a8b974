// Package operations has the commands for threads that have begun, whichever process runs them: thread wait,
// result, cancel, kill, tree and search.
//
// How a command goes through here: open finds the state directory and the project, opens the roster and the ledger
// of threads, and returns a control.Controller for them. The runner calls one method of the controller: waitRun.Run
// calls Wait, resultRun.Run Results, end calls Cancel or Kill for each thread, treeRun.Run Tree or Chain, and
// searchRun.Run Search. The Text method of the answer prints the result. Functions gives the same controller to
// tools.
package operations
