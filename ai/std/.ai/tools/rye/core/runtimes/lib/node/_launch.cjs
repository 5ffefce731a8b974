"use strict";

// Starts a JavaScript tool on nothing but its own files.
//
//     node --no-global-search-paths _launch.cjs TOOL PROJECT < PARAMETERS
//
// PARAMETERS is a JSON object. TOOL runs as the main module with the arguments --params JSON and
// --project-path PROJECT, and its standard output is the result. Standard input is at its end.
//
// Modules are Node's own, those below the directories in RYE_MODULE_PATH, and the packages that the tool has named, in
// the node_modules of RYE_PACKAGE_PATH. Node looks in every parent directory as well: what it finds there is refused as
// not found, for require and import alike.

const fs = require("node:fs");
const Module = require("node:module");
const path = require("node:path");
const { pathToFileURL } = require("node:url");

function fail(message) {
  process.stderr.write(message + "\n");
  process.exit(1);
}

function guard(tool, directories, packages) {
  const below = (file, d) => file.startsWith(d.endsWith(path.sep) ? d : d + path.sep);
  const inside = (file) => file === tool || [...directories, ...packages].some((d) => below(file, d));
  const resolve = Module._resolveFilename;
  Module._resolveFilename = function (request, parent, isMain, options) {
    let found, why;
    try {
      found = resolve.call(this, request, parent, isMain, options);
    } catch (error) {
      why = error;
    }
    if (found !== undefined && (Module.isBuiltin(found) || inside(found))) {
      return found;
    }
    // The packages don't stand where Node looks from the tool's own files.
    if (packages.length > 0 && /^[^./#]/.test(request) && !path.isAbsolute(request)) {
      try {
        found = resolve.call(this, request, parent, false, { paths: packages });
      } catch (error) {
        throw why || error;
      }
      if (inside(found)) {
        return found;
      }
    }
    if (why) {
      throw why;
    }
    throw Object.assign(new Error(`Cannot find module '${request}' among the tool's own files`), { code: "MODULE_NOT_FOUND" });
  };

  if (!Module.register) {
    fail("Node 18.19 or later is needed: this one can't say where modules may come from");
  }
  Module.register(pathToFileURL(path.join(__dirname, "_guard.mjs")), { data: { tool, directories, packages } });
}

// named returns the directories in a variable, by their real paths, as Node calls modules.
function named(variable) {
  const found = (process.env[variable] || "").split(path.delimiter).filter((d) => d !== "");
  // Processes that the tool starts have module paths of their own.
  delete process.env[variable];
  for (const d of found) {
    if (!path.isAbsolute(d)) {
      fail(`${variable} names '${d}', which is not absolute`);
    }
  }
  return found.map((d) => fs.realpathSync(d));
}

function main() {
  if (process.argv.length !== 4) {
    fail("usage: _launch.cjs TOOL PROJECT < PARAMETERS");
  }
  const tool = path.resolve(process.argv[2]);
  const project = path.resolve(process.argv[3]);
  const directories = named("RYE_MODULE_PATH");
  const packages = named("RYE_PACKAGE_PATH");
  const parameters = fs.readFileSync(0, "utf8");
  guard(fs.realpathSync(tool), directories, packages);
  process.argv.splice(1, 3, tool, "--params", parameters, "--project-path", project);
  Module.runMain();
}

main();
