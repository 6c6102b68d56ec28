// Frames of the protocol as bytes and back: docs/protocol.md, "One message format".

import { decode, encode } from "@msgpack/msgpack";
import { crc32 } from "node:zlib";

export const VERSION = 1;
export const Kind = {
  parcel: 1, gradients: 2, hello: 3, report: 4, command: 5, bye: 6, spans: 7,
  announcement: 16, weights: 17, beacon: 18, telemetry: 19, acknowledgement: 20,
  probe: 21, trace: 22,
};

const HEAD = 20; // bytes before the envelope
const ALIGNMENT = 64; // of the data and of each column
const MAGIC = Buffer.from([0xfa, 0x5f]);
const ENVELOPE_BYTES = 64 << 10; // of weights at most
const FEED_ENVELOPE_BYTES = 4 << 20; // of other messages of the feed
const TABLE_BYTES = 4 << 20;
const FRAME_BYTES = 2 ** 30;

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array,
  uint8: Uint8Array, bool: Uint8Array,
};

/** A frame that is not understood, with the reason as the protocol names it. */
export class Refused extends Error {
  constructor(reason, detail = "") {
    super(detail ? `${reason}: ${detail}` : reason);
    this.reason = reason;
  }
}

/** Return the frame of a message; `columns` are `{name, dtype, shape, array}` in their order. */
export function encodeFrame(kind, envelope, columns = []) {
  const fields = encode(envelope);
  const { table, offsets, bytes } = placed(columns);
  const start = columns.length ? aligned(HEAD + fields.length + table.length) : 0;
  const frame = Buffer.alloc(Math.max(HEAD + fields.length + table.length, start + bytes));
  MAGIC.copy(frame);
  frame[2] = VERSION;
  frame[3] = kind;
  frame.writeUInt32LE(fields.length, 4);
  frame.writeUInt32LE(table.length, 8);
  frame.writeUInt32LE(frame.length, 12);
  frame.set(fields, HEAD);
  frame.set(table, HEAD + fields.length);
  columns.forEach(({ array }, index) => frame.set(bytesOf(array), start + offsets[index]));
  frame.writeUInt32LE(checksum(frame), 16);
  return frame;
}

/** Return `{kind, envelope, table, data}` of a frame; throw `Refused` if it is not whole. */
export function openFrame(frame) {
  if (frame.length < HEAD) throw new Refused("truncated");
  if (!MAGIC.equals(frame.subarray(0, 2))) throw new Refused("magic");
  if (frame[2] !== VERSION) throw new Refused("protocol", `theirs is ${frame[2]}, ours ${VERSION}`);
  const kind = frame[3];
  if (!Object.values(Kind).includes(kind)) throw new Refused("kind", `${kind}`);
  const [fields, columns, length] = [4, 8, 12].map((place) => frame.readUInt32LE(place));
  if (fields > (kind < Kind.announcement || kind === Kind.weights
    ? ENVELOPE_BYTES : FEED_ENVELOPE_BYTES)) throw new Refused("envelope size");
  if (length > FRAME_BYTES) throw new Refused("oversized");
  if (columns && ![Kind.parcel, Kind.gradients, Kind.weights].includes(kind))
    throw new Refused("columns");
  if (columns > TABLE_BYTES) throw new Refused("table size");
  const end = HEAD + fields + columns;
  if (length !== frame.length || end > length) throw new Refused("truncated");
  if (checksum(frame) !== frame.readUInt32LE(16)) throw new Refused("checksum");
  return {
    kind,
    envelope: unpacked(frame.subarray(HEAD, HEAD + fields), "envelope", isMap),
    table: columns ? unpacked(frame.subarray(HEAD + fields, end), "malformed", Array.isArray) : [],
    data: frame.subarray(columns ? Math.min(aligned(end), length) : end),
  };
}

/** Return the columns of an opened frame by name, as arrays of their own. */
export function readColumns({ table, data }) {
  return new Map(table.map(([name, dtype, shape, offset, bytes, encoding]) => {
    const Type = ARRAYS[dtype];
    if (!Type) throw new Refused("dtype", `${dtype}`);
    if (encoding) throw new Refused("encoding", `${name} comes as ${encoding}`);
    const count = shape.reduce((product, size) => product * size, 1);
    const fits = count * Type.BYTES_PER_ELEMENT === bytes && offset + bytes <= data.length;
    if (!fits || offset < 0 || offset % ALIGNMENT)
      throw new Refused("columns", `${name} does not lie in its message`);
    const block = new Uint8Array(data.subarray(offset, offset + bytes)); // a copy is aligned
    return [name, { dtype, shape, array: new Type(block.buffer, 0, count) }];
  }));
}

/** Return the checksum that a whole frame carries: it names these bytes. */
export function carriedChecksum(frame) {
  return frame.readUInt32LE(16);
}

/** Return an array of zeros of a dtype of the protocol. */
export function zeros(dtype, count) {
  return new ARRAYS[dtype](count);
}

function checksum(frame) {
  return crc32(frame.subarray(HEAD), crc32(frame.subarray(0, 16)));
}

function placed(columns) {
  let bytes = 0;
  const offsets = [];
  const rows = columns.map(({ name, dtype, shape, array }) => {
    const offset = aligned(bytes);
    offsets.push(offset);
    bytes = offset + array.byteLength;
    return [name, dtype, shape, offset, array.byteLength, ""];
  });
  return { table: rows.length ? encode(rows) : new Uint8Array(0), offsets, bytes };
}

function unpacked(bytes, reason, fits) {
  let value;
  try {
    value = decode(bytes);
  } catch (error) {
    throw new Refused(reason, error.message);
  }
  if (!fits(value)) throw new Refused(reason);
  return value;
}

function isMap(value) {
  return typeof value === "object" && value !== null && value.constructor === Object;
}

function bytesOf(array) {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function aligned(place) {
  return Math.ceil(place / ALIGNMENT) * ALIGNMENT;
}
