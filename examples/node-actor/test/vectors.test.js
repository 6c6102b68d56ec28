// The examples of all messages in tests/vectors: read here, and written again byte for byte.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import { Refused, encodeFrame, openFrame, readColumns } from "../wire.js";

const FOLDER = new URL("../../../tests/vectors/", import.meta.url);
const NAMES = readdirSync(FOLDER).filter((name) => name.endsWith(".json"));

function plain(value) {
  if (value instanceof Uint8Array) return { hex: Buffer.from(value).toString("hex") };
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]));
  return value;
}

function numbers({ dtype, array }) {
  return Array.from(array, (value) => (dtype === "bool" ? value === 1 : Number(value)));
}

test("there is an example of each kind", () => assert.ok(NAMES.length >= 15, `${NAMES}`));

for (const name of NAMES) {
  const vector = JSON.parse(readFileSync(new URL(name, FOLDER), "utf8"));
  const frame = Buffer.from(vector.frame, "hex");
  const compressed = vector.table.some((row) => row[5]);

  test(`${name} means here what it says`, () => {
    const opened = openFrame(frame);
    assert.equal(opened.kind, vector.kind);
    assert.deepEqual(plain(opened.envelope), vector.envelope);
    assert.deepEqual(opened.table, vector.table);
    if (compressed) return assert.throws(() => readColumns(opened), /encoding/);
    const found = [...readColumns(opened)].map(([key, column]) => [key, numbers(column)]);
    assert.deepEqual(Object.fromEntries(found), vector.columns);
  });

  test(`${name} survives writing and reading`, { skip: compressed && "lz4" }, () => {
    const opened = openFrame(frame);
    const columns = [...readColumns(opened)].map(([key, column]) => ({ name: key, ...column }));
    const again = openFrame(encodeFrame(opened.kind, opened.envelope, columns));
    assert.deepEqual(plain(again.envelope), vector.envelope);
    assert.deepEqual(again.table, vector.table);
    assert.deepEqual(Buffer.from(again.data), Buffer.from(opened.data));
  });

  test(`${name} is refused with a byte changed or cut off`, () => {
    for (const place of [20, frame.length - 1]) {
      const damaged = Buffer.from(frame);
      damaged[place] ^= 1;
      assert.throws(() => openFrame(damaged), { reason: "checksum" });
    }
    assert.throws(() => openFrame(frame.subarray(0, -1)), { reason: "truncated" });
    assert.throws(() => openFrame(frame.subarray(0, 19)), Refused);
  });
}
