// Package functions has the functions of rye that tools of the library may call: bundler, lint, sign, system and
// telemetry. Each does the work of a command.
//
// How a call goes through here: Functions registers each function with the permissions that its parameters need
// (BundlerNeeds, SignNeeds, SystemNeeds, TelemetryNeeds); the caller of function.Functions checks these first. Then
// bundlerFunction, for example, checks the id, makes an App that asks nothing (paths.Unattended), runs the
// command's Runner, and converts its Answer into the fields that the tool documents. function.No returns a refusal
// as a result.
package functions
