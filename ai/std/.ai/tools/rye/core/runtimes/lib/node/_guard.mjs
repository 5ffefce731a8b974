// The part of _launch.cjs that decides about import: Node asks it from a thread of its own.

import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

let tool;
let directories;
let packages;

export function initialize(data) {
  ({ tool, directories, packages } = data);
}

function inside(url) {
  if (/^(node|data):/.test(url)) {
    return true;
  }
  const file = url.startsWith("file:") ? fileURLToPath(url) : "";
  return file === tool || [...directories, ...packages].some((d) => file.startsWith(d.endsWith(path.sep) ? d : d + path.sep));
}

export async function resolve(specifier, context, next) {
  let found, why;
  try {
    found = await next(specifier, context);
  } catch (error) {
    why = error;
  }
  if (found && inside(found.url)) {
    return found;
  }
  // The packages don't stand where Node looks from the tool's own files.
  if (packages.length > 0 && /^[^./#]/.test(specifier) && !/^[a-z]+:/.test(specifier)) {
    const parentURL = pathToFileURL(path.join(packages[0], "tool.mjs")).href;
    try {
      found = await next(specifier, { ...context, parentURL });
    } catch (error) {
      throw why || error;
    }
    if (inside(found.url)) {
      return found;
    }
  }
  throw why || Object.assign(new Error(`Cannot find module '${specifier}' among the tool's own files`), { code: "ERR_MODULE_NOT_FOUND" });
}
