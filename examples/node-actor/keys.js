// Key files, as `learner keys` makes them: lines of name = "text".

import { readFileSync, statSync } from "node:fs";

const NEEDED = ["label", "public", "secret", "server"];

/** Return the keys of a client from its `.key` file, or null without one. */
export function readKeys(path) {
  if (!path) return null;
  if (statSync(path).mode & 0o077)
    throw new Error(`${path} can be read by other users: chmod 600 ${path}`);
  const lines = readFileSync(path, "utf8").matchAll(/^(\w+) = "([^"\\]*)"$/gm);
  const keys = Object.fromEntries(Array.from(lines, ([, name, text]) => [name, text]));
  const missing = NEEDED.find((name) => !keys[name]);
  if (missing) throw new Error(`${path} is no key file of an actor: it has no ${missing}`);
  return keys;
}

/** Return the options of a socket with these keys: CURVE, or NULL without any. */
export function socketOptions(keys) {
  if (!keys) return {};
  return { curveServerKey: keys.server, curvePublicKey: keys.public, curveSecretKey: keys.secret };
}

/** Return the full name of an actor: with keys it begins with their label and a slash. */
export function fullName(keys, name) {
  return keys && !name.startsWith(`${keys.label}/`) ? `${keys.label}/${name}` : name;
}
