"use strict";

// Starts a JavaScript tool on nothing but its own files.
//
//     node --no-global-search-paths _launch.cjs TOOL PROJECT < PARAMETERS
//
// PARAMETERS is a JSON object. TOOL runs as the main module with the arguments --params JSON and
// --project-path PROJECT, and its standard output is the result. Standard input is at its end.
//
// Modules are Node's own and those below the directories in RYE_MODULE_PATH, node_modules there included. Node
// looks in every parent directory as well: what it finds there is refused as not found, for require and import alike.

const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { pathToFileURL } = require("node:url");

function fail(message) {
  process.stderr.write(message + "\n");
  process.exit(1);
}

function guard(tool, directories) {
  const inside = (file) => file === tool || directories.some((d) => file.startsWith(d.endsWith(path.sep) ? d : d + path.sep));
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function (request, ...rest) {
    const found = resolve.call(this, request, ...rest);
    if (Module.isBuiltin(found) || inside(found)) {
      return found;
    }
    throw Object.assign(new Error(`Cannot find module '${request}' among the tool's own files`), { code: "MODULE_NOT_FOUND" });
  };

  if (!Module.register) {
    fail("Node 18.19 or later is needed: this one can't say where modules may come from");
  }
  Module.register(pathToFileURL(path.join(__dirname, "_guard.mjs")), { data: { tool, directories } });
}

function main() {
  if (process.argv.length !== 4) {
    fail("usage: _launch.cjs TOOL PROJECT < PARAMETERS");
  }
  const tool = path.resolve(process.argv[2]);
  const project = path.resolve(process.argv[3]);
  const named = (process.env.RYE_MODULE_PATH || "").split(path.delimiter).filter((d) => d !== "");
  // Whoever the tool starts has module paths of its own.
  delete process.env.RYE_MODULE_PATH;
  for (const d of named) {
    if (!path.isAbsolute(d)) {
      fail(`RYE_MODULE_PATH names '${d}', which is not absolute`);
    }
  }
  const parameters = fs.readFileSync(0, "utf8");
  // Node calls modules by their real paths.
  guard(fs.realpathSync(tool), named.map((d) => fs.realpathSync(d)));
  process.argv.splice(1, 3, tool, "--params", parameters, "--project-path", project);
  Module.runMain();
}

main();
