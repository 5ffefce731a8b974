// Package runs has the commands that run tools, directives and graphs: exec, run, test, thread resume, thread
// handoff and thread replay.
//
// How a command goes through here: for rye exec, execRun.Run resolves the argument with ref, and check refuses what
// would fail only after the tool has run. Open opens the session of the project, with the functions that tools may
// call. Session.Prepare makes the plan, call runs it and passes the output on through toolOutput, and callFault
// turns a failed call into an error. For rye run, runRun.run opens the session and start runs the thread: attend
// opens the engine with openEngine, shows progress with live.Watch, and calls Engine.RunAttended. With --async,
// detach starts another process instead, whose runRun.Run calls detached. With --write, write writes and signs the
// item that the thread returned.
package runs
