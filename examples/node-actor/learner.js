// The learner that an actor obeys, and when to ask it for a snapshot or to connect again.
// docs/protocol.md, "Joining" and "The learner to obey". The time in seconds is an argument.

import { drawIdentity } from "./delivery.js";

const SILENCE_S = 8; // without a message, or without an answer: both sockets are made again
const UNACKNOWLEDGED_S = 3; // beacons come, but no acknowledgement
const BEHIND_S = 1; // a version was announced and has not come
const RETRY_S = 2; // until an open question is asked again, then twice and four times that
const ALTERNATING_S = 10; // two runs in turns within it are two learners
const PLACE_BITS = 2 ** 32; // a nonce below it asks for any index, and not as an evaluator

export class Learner {
  constructor(now) {
    this.run = "";
    this.id = 0;
    this.epoch = 0;
    this.state = "run";
    this.held = [0, 0]; // the version of the newest weights here
    this.announced = [0, 0];
    this.steps = 0; // of the run, by the newest beacon or weights
    this.nonce = 0; // of the question that is open, or 0
    this.confirmed = 0; // of the last one that was answered
    this.asks = 0; // in vain
    this.builds = 0; // in vain
    this.former = { run: "", leftAt: -Infinity };
    this.heardAt = this.acknowledgedAt = this.askedAt = this.builtAt = now;
    this.behindSince = null;
  }

  /** Return "first", "newer", "other run", "known" or "stale" for the origin of a message. */
  judge(run, id, epoch, now) {
    const known = this.#compare(run, id, epoch, now);
    if (known === "stale") return known;
    if (known === "other run") this.former = { run: this.run, leftAt: now };
    if (known === "other run" || known === "newer") this.held = this.announced = [0, 0];
    Object.assign(this, { run, id, epoch, heardAt: now });
    return known;
  }

  #compare(run, id, epoch, now) {
    if (!this.run) return "first";
    if (run !== this.run) {
      if (run === this.former.run && now - this.former.leftAt < ALTERNATING_S)
        throw new Error(`two learners alternate here, of runs ${run} and ${this.run}: stop one`);
      return "other run";
    }
    if (epoch < this.epoch) return "stale";
    if (epoch === this.epoch && id !== this.id)
      throw new Error(`two learners are in epoch ${epoch} of run ${run}: one is a copy, stop it`);
    return epoch > this.epoch ? "newer" : "known";
  }

  /** Take in a beacon of the obeyed learner. */
  beacon({ version, steps, state }, now) {
    this.announced = version;
    this.state = state;
    this.steps = Math.max(this.steps, steps);
    const behind = state !== "restoring" && isNewer(version, this.held); // else it comes later
    this.behindSince = behind ? this.behindSince ?? now : null;
  }

  /** Note that weights are here. */
  holds(version, steps) {
    this.held = version;
    this.steps = Math.max(this.steps, steps);
    if (!isNewer(this.announced, version)) this.behindSince = null;
  }

  /** Note an acknowledgement. */
  acknowledged(now) {
    this.acknowledgedAt = now;
    this.builds = 0;
  }

  /** Return true if the learner takes what is sent. */
  listens(now) {
    const takes = !["away", "stop"].includes(this.state);
    return Boolean(this.run) && takes && now - this.heardAt < SILENCE_S;
  }

  /** Return true if both sockets should be made again. */
  shouldConnect(now, unansweredSince) {
    const silence = SILENCE_S * 2 ** Math.min(this.builds, 2);
    const since = Math.max(this.builtAt, Math.min(this.heardAt, unansweredSince ?? Infinity));
    return now - since >= silence;
  }

  /** Note that both sockets were made again. */
  connected(now) {
    this.builtAt = now;
    this.builds += 1;
  }

  /** Return true if a snapshot should be asked for, under a fresh nonce. */
  shouldAsk(now) {
    // No learner is here: subscriptions stand, and are repeated when it connects.
    if (!this.run || now - this.heardAt >= UNACKNOWLEDGED_S) return false;
    if (this.nonce) return now - this.askedAt >= RETRY_S * 2 ** Math.min(this.asks - 1, 2);
    if (this.behindSince !== null && now - this.behindSince >= BEHIND_S) return true;
    const knownAt = Math.max(this.acknowledgedAt, this.askedAt);
    return this.state !== "restoring" && now - knownAt >= UNACKNOWLEDGED_S;
  }

  /** Draw the nonce of a question that is asked now. */
  ask(now) {
    this.nonce = 1 + (drawIdentity() % (PLACE_BITS - 1));
    this.askedAt = now;
    this.asks += 1;
  }

  /** Note that the open question was answered. */
  answered() {
    this.confirmed = this.nonce;
    this.nonce = 0;
    this.asks = 0;
  }
}

/** Return true if a version is above another one. */
export function isNewer([epoch, number], [otherEpoch, otherNumber]) {
  return epoch > otherEpoch || (epoch === otherEpoch && number > otherNumber);
}
