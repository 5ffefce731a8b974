// The part of _launch.cjs that decides about import: Node asks it from a thread of its own.

import path from "node:path";
import { fileURLToPath } from "node:url";

let tool;
let directories;

export function initialize(data) {
  ({ tool, directories } = data);
}

export async function resolve(specifier, context, next) {
  const found = await next(specifier, context);
  if (/^(node|data):/.test(found.url)) {
    return found;
  }
  const file = found.url.startsWith("file:") ? fileURLToPath(found.url) : "";
  if (file === tool || directories.some((d) => file.startsWith(d.endsWith(path.sep) ? d : d + path.sep))) {
    return found;
  }
  throw Object.assign(new Error(`Cannot find module '${specifier}' among the tool's own files`), { code: "ERR_MODULE_NOT_FOUND" });
}
