// Package launcher is the command lines that download a package and start it: npx, npm exec and uvx. They are read
// here, from their words alone, and never run. It is a package of its own because a plugin's reader needs nothing else
// of a catalogue, and because what it accepts decides which code is pinned.
//
// # What a command is
//
// Read returns one of three things:
//
//	a Package   a launcher, whose package, version and program are known before anything runs: it can be pinned
//	a Skip      a program that downloads what it runs in a way that can't be pinned, with the reason and the command
//	            to write instead
//	neither     any other program: one of the machine, which is unpinned, or a file
//
// A program is known by its name, in any case and with .cmd, .exe, .bat or .ps1, also at an absolute path. A relative
// path is a file of its own, whatever it is called.
//
// # What can be pinned
//
//	npx [OPTION…] [--] PACKAGE [ARGUMENT…]
//	npx [OPTION…] -p PACKAGE [--] PROGRAM [ARGUMENT…]
//	npm exec|x [OPTION…] PACKAGE [WORD…] [-- ARGUMENT…]        npm reads options up to --, so a WORD is none
//	uvx [OPTION…] REQUIREMENT [ARGUMENT…]                      uv tool run is the same
//	uvx [OPTION…] --from REQUIREMENT PROGRAM [ARGUMENT…]
//
// An OPTION changes neither what is downloaded nor what runs: -y, --yes, -q and --quiet of npm, -q and --quiet of uv.
// With any other the command is skipped.
//
//	PACKAGE      = NAME [ "@" ( VERSION | RANGE | TAG ) ]      ; ParseNPM. A RANGE is of package semver, or 1.2
//	REQUIREMENT  = NAME [ "[" EXTRA *( "," EXTRA ) "]" ] ( [ "@" VERSION ] | [ SPECIFIER *( "," SPECIFIER ) ] )
//	SPECIFIER    = ( "==" | "!=" | "<=" | ">=" | "<" | ">" | "~=" ) VERSION    ; ParsePython; "===" compares texts
//
// An address, a repository, a path, an alias and a file's name are refused: the registry that rye.yaml names is the
// only source. So is a package that is a launcher itself.
//
// # What is skipped
//
// npm init, pnpm dlx, pnpx, yarn dlx, bunx, bun x, corepack, pipx run, uv run, docker, podman and nerdctl, deno with
// an address, go run with a version, and all of these and the launchers behind env, a shell's -c, cmd /c and programs
// that start another one, such as nohup. A shell's text is split at its separators, and the first word of each part is
// read. A text can hide a program from that; the sandbox then still gives it no network.
package launcher
