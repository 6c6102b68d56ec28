// One policy at one actor: messages of the feed in, messages to push out. No sockets, no clock.

import { Outbox } from "./delivery.js";
import { Learner, isNewer } from "./learner.js";
import { requirePlayable, schemaOf } from "./spec.js";
import { Kind, Refused, encodeFrame, openFrame, readColumns } from "./wire.js";

const REPORT_S = 2;
const PROBLEMS = 16; // in a report

export class Client {
  constructor({ policy, actor, seats }, now) {
    this.policy = policy;
    this.actor = actor;
    this.seats = seats;
    this.learner = new Learner(now);
    this.outbox = new Outbox((parcel, place) => this.#encode(parcel, place));
    this.joined = null; // {spec, schema, index, start}, once a snapshot came
    this.weights = null; // {version, data}: the newest
    this.counters = { steps: 0, episodes: 0 };
    this.problems = [];
    this.notices = []; // frames that count no number: hello, report, bye
    this.pending = null; // the announcement of a snapshot, until its weights are here
    this.log = () => {}; // called with sentences for people
    this.reportedAt = now;
    this.learner.ask(now);
  }

  /** Topics in byte order: that of a question comes last, when the others stand. */
  get subscriptions() {
    const own = `${this.policy}/${this.actor}/${digits(this.outbox.incarnation)}`;
    const question = this.learner.nonce ? [`z/${own}/${digits(this.learner.nonce)}`] : [];
    return [`a/${own}`, `c/${this.policy}/`, `w/${this.policy}/`, ...question];
  }

  /** Return true if another window may begin: all before it has left, and a learner listens. */
  mayPlay(now) {
    return Boolean(this.joined && this.weights) && !this.outbox.waiting.length &&
      this.learner.listens(now);
  }

  /** Take in one message; throw if the only learner here cannot be understood or obeyed. */
  receive(topic, frame, now) {
    let opened;
    try {
      opened = openFrame(frame);
    } catch (error) {
      if (!(error instanceof Refused) || error.reason === "protocol") throw error;
      return this.problem("refused", `a message of ${topic}: ${error.message}`);
    }
    const { kind, envelope } = opened;
    if (kind === Kind.announcement) this.#announced(topic, envelope, now);
    else if (kind === Kind.weights) this.#weighed(topic, opened);
    else if (kind === Kind.beacon) this.#beacon(envelope, now);
    else if (kind === Kind.acknowledgement) this.#acknowledged(envelope, now);
  }

  #obeys({ run, learner_id: id, epoch }, now) {
    const verdict = this.learner.judge(run, id, epoch, now);
    if (verdict === "first") this.log(`connected to run ${run}`);
    if (verdict === "other run") {
      this.log(`another run is at this address: ${run}`);
      this.outbox.endRun();
      this.joined = this.weights = null;
      this.#ask(now);
    } else if (verdict === "newer") {
      this.log("the learner was started again: sending again what it has not acknowledged");
      this.outbox.resendAll();
      this.#ask(now);
    }
    return verdict !== "stale";
  }

  #announced(topic, { spec, learner_id, epoch, index, start }, now) {
    if (topic !== this.subscriptions[3]) return; // of a question that is answered
    if (!this.#obeys({ run: spec.run, learner_id, epoch }, now)) return;
    if (topic !== this.subscriptions[3]) return; // that question was to another run
    requirePlayable(spec);
    this.pending = { spec, schema: schemaOf(spec), index, start };
  }

  #weighed(topic, opened) {
    const { run, version, steps } = opened.envelope;
    const isAnswer = topic === this.subscriptions[3] && this.pending !== null;
    if (isAnswer) this.joined = this.pending;
    if (!this.joined || run !== this.learner.run || version[0] !== this.learner.epoch) return;
    if (isNewer(version, this.learner.held)) {
      requireTensors(this.joined.spec.graph.weights, readColumns(opened));
      this.weights = { version, data: new Uint8Array(opened.data) }; // a copy, which is aligned
      this.learner.holds(version, steps);
    }
    if (!isAnswer) return;
    this.pending = null;
    this.learner.answered();
    this.hello();
  }

  #beacon(beacon, now) {
    const { run, learner_id, version } = beacon;
    if (this.#obeys({ run, learner_id, epoch: version[0] }, now)) this.learner.beacon(beacon, now);
  }

  #acknowledged(envelope, now) {
    const { run, id, epoch } = this.learner;
    if (envelope.run !== run || envelope.learner_id !== id || envelope.epoch !== epoch) return;
    if (envelope.incarnation !== this.outbox.incarnation) return;
    this.learner.acknowledged(now);
    this.outbox.acknowledge(envelope, now);
    for (const [number, reason] of envelope.refused)
      this.problem("refused", `parcel ${number}: ${reason}`);
  }

  /** Do what the time asks for; return true if both sockets should be made again. */
  look(now) {
    if (this.joined && now - this.reportedAt >= REPORT_S) this.report(now);
    if (this.learner.shouldConnect(now, this.outbox.unansweredSince)) {
      this.log("no answer: connecting again");
      this.learner.connected(now);
      this.outbox.resendAll();
      this.#ask(now);
      return true;
    }
    if (this.learner.shouldAsk(now)) this.#ask(now);
    return false;
  }

  #ask(now) {
    this.pending = null;
    this.learner.ask(now);
    if (this.joined) this.hello();
  }

  /** Note a problem for the learner's screen. */
  problem(kind, text) {
    const number = (this.problems.at(-1)?.number ?? 0) + 1;
    this.problems = [...this.problems, { number, kind, text }].slice(-PROBLEMS);
  }

  /** Greet: this confirms a snapshot. */
  hello() {
    const { confirmed: nonce, held: version } = this.learner;
    this.#notice(Kind.hello, { nonce, version, seats: this.seats, evaluates: false });
  }

  /** Report counters and problems. */
  report(now) {
    this.reportedAt = now;
    const { books, reasons } = this.outbox;
    const counts = [...Object.entries(books), ...reasons];
    const counters = Object.fromEntries(counts.map(([name, count]) => [`${name}.parcels`, count]));
    Object.assign(counters, this.counters, { waits: this.mayPlay(now) ? 0 : 1 });
    this.#notice(Kind.report, { version: this.learner.held, counters, problems: this.problems });
  }

  /** Say goodbye: the last message. */
  bye(reason) {
    this.#notice(Kind.bye, { reason });
  }

  #notice(kind, fields) {
    const { run } = this.learner;
    const { incarnation, base } = this.outbox;
    const who = { run, policy: this.policy, actor: this.actor, incarnation, base };
    this.notices.push(encodeFrame(kind, { ...who, ...fields }));
  }

  #encode({ columns, version }, { incarnation, sequence, base }) {
    const who = { run: this.learner.run, policy: this.policy, actor: this.actor };
    const place = { incarnation, sequence, base, version, schema: this.joined.schema };
    return encodeFrame(Kind.parcel, { ...who, ...place, round: 0, evaluation: false }, columns);
  }
}

/** Refuse weights that are not the graph's own tensors in their order. */
function requireTensors(wanted, found) {
  const names = [...found.keys()];
  const same = wanted.length === names.length && wanted.every(({ name, dtype, shape }, index) =>
    names[index] === name && found.get(name).dtype === dtype &&
    `${found.get(name).shape}` === `${shape}`);
  if (!same) throw new Error("the learner's weights are not those of its graph");
}

function digits(identity) {
  return identity.toString(16).padStart(16, "0");
}
