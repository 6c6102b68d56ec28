// Parcels to send: numbered when first sent, kept and sent again until they are acknowledged.
// docs/protocol.md, "Delivery". No sockets, and the time in seconds is an argument.

import { randomBytes } from "node:crypto";

const SENDINGS = 20; // of one number to a learner that sends: then it is given up
const SOONEST_S = 1; // until the oldest is sent again, and four times the usual time
const MISSED_S = 0.2; // until one named missing is: the acknowledgement may be older than it
const LONGEST_S = 16;
const WINDOW = 4096; // numbers above `base`
const FIRST_CREDIT = { messages: 1, size: 1 }; // before the first acknowledgement: one parcel

/** Return a random number below 2^53. */
export function drawIdentity() {
  return Number(randomBytes(8).readBigUInt64LE() >> 11n);
}

export class Outbox {
  /** `encode(parcel, {incarnation, sequence, base})` makes the bytes of a parcel, once. */
  constructor(encode) {
    this.encode = encode;
    this.released = () => {}; // called with the number and frame of each that is acknowledged
    this.books = { collected: 0, acknowledged: 0, refused: 0, sent: 0, waiting: 0, dropped: 0 };
    this.reasons = new Map(); // counts of refusals and drops, as refused.<reason>
    this.sent = new Map(); // by number, in order
    this.waiting = [];
    this.beginRun();
  }

  /** Number from 1 in a new incarnation. Call `endRun` before, if there was a run. */
  beginRun() {
    this.incarnation = drawIdentity();
    this.newest = 0;
    this.base = 1;
    this.credit = FIRST_CREDIT;
    this.told = { learner: 0, highest: 0 }; // by the newest acknowledgement
    this.again = new Set(); // numbers to send again
    this.usualS = 0; // from a sending to its acknowledgement, smoothed
    this.acknowledgedAt = -Infinity;
    this.progressAt = 0;
    this.bytes = 0; // sent and not acknowledged
  }

  /** Drop and count everything: its run is over. */
  endRun() {
    for (const number of [...this.sent.keys()]) this.#settle(number, "dropped", "run ended");
    for (const _ of this.waiting.splice(0)) this.#count("waiting", "dropped", "run ended");
    this.beginRun();
  }

  /** Take a parcel to send. */
  offer(parcel) {
    this.waiting.push(parcel);
    this.books.collected += 1;
    this.books.waiting += 1;
  }

  /** The time since which nothing is answered, or null if nothing is sent. */
  get unansweredSince() {
    return this.sent.size ? this.progressAt : null;
  }

  /** Return the next frame that should leave now, or null. Call `left` once it has left. */
  next(now) {
    const number = this.again.values().next().value ?? this.#overdue(now);
    if (number) return { number, frame: this.sent.get(number).frame };
    if (!this.waiting.length || !this.#hasCredit()) return null;
    const waiting = this.waiting[0];
    waiting.frame ??= this.encode(waiting, {
      incarnation: this.incarnation, sequence: this.newest + 1, base: this.base,
    });
    const fits = !this.sent.size || this.bytes + waiting.frame.length <= this.credit.size;
    return fits ? { number: this.newest + 1, frame: waiting.frame } : null;
  }

  /** Note that a number has left. */
  left(number, now) {
    this.again.delete(number);
    const entry = this.sent.get(number);
    if (entry) {
      // A learner that sends nothing at all is not counted against the number.
      if (entry.lastAt <= this.acknowledgedAt) entry.sendings += 1;
      entry.resent = true;
      entry.lastAt = now;
      return;
    }
    const { frame } = this.waiting.shift();
    if (!this.sent.size) this.progressAt = now;
    this.newest = number;
    this.sent.set(number, { frame, firstAt: now, lastAt: now, sendings: 1, resent: false });
    this.bytes += frame.length;
    this.#count("waiting", "sent");
  }

  /** Release what the learner has, and take the credit that it grants. */
  acknowledge({ learner_id: learner, highest, missing, refused, credit }, now) {
    this.acknowledgedAt = now;
    for (const [number, reason] of refused)
      if (this.sent.has(number)) this.#settle(number, "refused", reason, now);
    const gaps = new Set(missing);
    for (const [number, entry] of [...this.sent]) {
      if (number > highest) break;
      if (gaps.has(number)) this.#missed(number, entry, now);
      else this.#acknowledged(number, entry, now);
    }
    while (this.base <= this.newest && !this.sent.has(this.base)) this.base += 1;
    // Else a newer one overtook it: with its credit a number could be one too many.
    const told = { learner, highest: Math.min(highest, this.newest) };
    if (learner !== this.told.learner || told.highest >= this.told.highest)
      Object.assign(this, { told, credit });
  }

  /** Send everything again, after a new epoch or new sockets. */
  resendAll() {
    this.again = new Set(this.sent.keys());
  }

  #hasCredit() {
    const { messages, size } = this.credit;
    if (messages <= 0 || size <= 0) return false;
    return !this.sent.size || (this.sent.size < messages && this.newest + 1 - this.base < WINDOW);
  }

  #acknowledged(number, entry, now) {
    this.released(number, entry.frame);
    if (!entry.resent) { // else it is unknown which sending was answered
      const taken = now - entry.firstAt;
      this.usualS += this.usualS ? (taken - this.usualS) / 8 : taken;
    }
    this.#settle(number, "acknowledged", "", now);
  }

  #missed(number, entry, now) {
    if (now < entry.lastAt + patience(Math.max(MISSED_S, 2 * this.usualS), entry)) return;
    if (entry.sendings >= SENDINGS) this.#settle(number, "dropped", "unanswered", now);
    else this.again.add(number);
  }

  #overdue(now) {
    const entry = this.sent.get(this.base);
    return entry && now >= entry.lastAt + patience(SOONEST_S + 4 * this.usualS, entry)
      ? this.base : 0;
  }

  #settle(number, into, reason, now = 0) {
    this.bytes -= this.sent.get(number).frame.length;
    this.sent.delete(number);
    this.again.delete(number);
    this.progressAt = now;
    this.#count("sent", into, reason);
  }

  #count(from, into, reason = "") {
    this.books[from] -= 1;
    this.books[into] += 1;
    const name = `${into}.${reason}`;
    if (reason) this.reasons.set(name, (this.reasons.get(name) ?? 0) + 1);
  }
}

/** Return how long to wait for an answer: longer after each sending, so that no link is flooded. */
function patience(firstS, { sendings }) {
  return Math.min(firstS * Math.min(2 ** (sendings - 1), 8), LONGEST_S);
}
