// Delivery without sockets: credit, missing numbers, repeats, a restarted learner, another run.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Outbox } from "../delivery.js";
import { Learner } from "../learner.js";

const CREDIT = { messages: 8, size: 1000 };

function outbox(parcels) {
  const made = new Outbox((parcel, { sequence }) => Buffer.from(`${parcel.name} ${sequence}`));
  for (const name of parcels) made.offer({ name });
  return made;
}

function drained(box, now) {
  const numbers = [];
  for (let due = box.next(now); due; due = box.next(now)) {
    box.left(due.number, now);
    numbers.push(due.number);
  }
  return numbers;
}

function answer(box, now, highest, missing = [], refused = [], credit = CREDIT, learner = 5) {
  box.acknowledge({ learner_id: learner, highest, missing, refused, credit }, now);
}

function balanced({ collected, ...rest }) {
  return collected === Object.values(rest).reduce((sum, count) => sum + count, 0);
}

test("one parcel leaves before the first acknowledgement, then as credit allows", () => {
  const box = outbox(["a", "b", "c", "d"]);
  assert.deepEqual(drained(box, 0), [1]);
  answer(box, 0.1, 1, [], [], { messages: 2, size: 1000 });
  assert.deepEqual(drained(box, 0.2), [2, 3]);
  answer(box, 0.3, 2, [], [], { messages: 0, size: 0 });
  assert.deepEqual(drained(box, 0.4), []);
});

test("a size of credit bounds bytes, and one parcel always fits", () => {
  const box = outbox(["a", "b", "c"]);
  answer(box, 0, 0, [], [], { messages: 8, size: 4 });
  assert.deepEqual(drained(box, 0), [1]);
  answer(box, 0, 1, [], [], { messages: 8, size: 6 });
  assert.deepEqual(drained(box, 0), [2, 3]); // of three bytes each
});

test("an acknowledgement that a newer one overtook changes no credit, that of another learner does",
  () => {
    const [one, much] = [{ messages: 1, size: 1000 }, { messages: 9, size: 1000 }];
    const box = outbox(["a", "b", "c", "d", "e"]);
    answer(box, 0, 0);
    assert.deepEqual(drained(box, 0), [1, 2, 3, 4, 5]);
    answer(box, 0.1, 3, [], [], one);
    answer(box, 0.2, 2, [], [], much); // it left before the other
    assert.equal(box.credit, one);
    answer(box, 0.3, 3, [], [], much); // with equal numbers there is no telling
    assert.equal(box.credit, much);
    answer(box, 0.4, 1, [], [], one, 6); // a learner that was started again may have fewer
    assert.equal(box.credit, one);
    answer(box, 0.5, 99, [], [], one, 6); // beyond all that were sent: they count as the newest
    box.offer({ name: "f" });
    drained(box, 0.6);
    answer(box, 0.7, 6, [], [], much, 6);
    assert.equal(box.credit, much);
    box.endRun();
    answer(box, 0.8, 0, [], [], one, 6);
    assert.equal(box.credit, one);
  });

test("what is missing is sent again with the same bytes, and base rises over what is there", () => {
  const box = outbox(["a", "b", "c"]);
  answer(box, 0, 0);
  drained(box, 0);
  const before = box.sent.get(2).frame;
  answer(box, 0.1, 1);
  answer(box, 1, 3, [2]);
  assert.equal(box.base, 2);
  assert.equal(box.next(1).frame, before);
  answer(box, 1.1, 3);
  assert.equal(box.base, 4);
  assert.deepEqual(box.books,
    { collected: 3, acknowledged: 3, refused: 0, sent: 0, waiting: 0, dropped: 0 });
});

test("an acknowledgement that is older than a sending does not repeat it", () => {
  const box = outbox(["a", "b"]);
  answer(box, 0, 0);
  drained(box, 0);
  answer(box, 0.1, 2, [1]);
  assert.deepEqual(drained(box, 0.1), []);
});

test("the oldest is repeated when it is overdue, less and less often, and given up at last", () => {
  const box = outbox(["a"]);
  assert.deepEqual(drained(box, 0), [1]);
  const times = [];
  for (let now = 0; now < 400 && box.sent.size; now += 0.5) {
    answer(box, now, 1, [1]);
    if (drained(box, now).length) times.push(now);
  }
  assert.equal(times.length, 19);
  assert.ok(times.at(-1) - times.at(-2) > times[1] - times[0]);
  assert.equal(box.books.dropped, 1);
  assert.equal(box.reasons.get("dropped.unanswered"), 1);
});

test("a learner that sends nothing costs a number nothing", () => {
  const box = outbox(["a"]);
  for (let now = 0; now < 1000; now += 0.5) drained(box, now);
  assert.equal(box.sent.size, 1);
});

test("a refused number is counted by its reason and not sent again", () => {
  const box = outbox(["a"]);
  drained(box, 0);
  answer(box, 1, 1, [], [[1, "nonfinite"]]);
  assert.equal(box.reasons.get("refused.nonfinite"), 1);
  assert.deepEqual(drained(box, 100), []);
});

test("another run drops and counts everything and numbers from 1 as another incarnation", () => {
  const box = outbox(["a", "b", "c"]);
  drained(box, 0);
  const before = box.incarnation;
  box.endRun();
  assert.notEqual(box.incarnation, before);
  assert.equal(box.reasons.get("dropped.run ended"), 3);
  assert.ok(balanced(box.books), JSON.stringify(box.books));
  box.offer({ name: "d" });
  assert.deepEqual(drained(box, 1), [1]);
});

test("a higher epoch is obeyed, a lower one never, and a copy is named", () => {
  const learner = new Learner(0);
  assert.equal(learner.judge("one", 5, 1, 0), "first");
  assert.equal(learner.judge("one", 5, 1, 1), "known");
  assert.equal(learner.judge("one", 6, 2, 2), "newer");
  assert.equal(learner.judge("one", 5, 1, 3), "stale");
  assert.equal(learner.heardAt, 2);
  assert.throws(() => learner.judge("one", 7, 2, 3), /copy/);
  assert.equal(learner.judge("two", 8, 1, 4), "other run");
  assert.throws(() => learner.judge("one", 6, 2, 5), /alternate/);
});

test("nothing is sent to a learner that is silent, away or stopped", () => {
  const learner = new Learner(0);
  assert.equal(learner.listens(0), false);
  learner.judge("one", 5, 1, 0);
  const states = { run: true, pause: true, away: false, stop: false };
  for (const [state, listens] of Object.entries(states)) {
    learner.beacon({ version: [1, 1], steps: 0, state }, 1);
    assert.equal(learner.listens(1), listens, state);
  }
  learner.beacon({ version: [1, 1], steps: 0, state: "run" }, 1);
  assert.equal(learner.listens(8), false);
});

test("sockets are made again after 8 s of silence, then 16 s, then 32 s", () => {
  const learner = new Learner(0);
  const at = [];
  for (let now = 0; now < 130; now += 1) {
    if (!learner.shouldConnect(now, null)) continue;
    learner.connected(now);
    at.push(now);
  }
  assert.deepEqual(at, [8, 24, 56, 88, 120]);
});

test("a snapshot is asked for again while it is open, when behind, and without answers", () => {
  const learner = new Learner(0);
  learner.judge("one", 5, 1, 0);
  learner.ask(0);
  assert.ok(learner.nonce > 0 && learner.nonce < 2 ** 32);
  assert.equal(learner.shouldAsk(1.9), false);
  assert.equal(learner.shouldAsk(2), true);
  learner.ask(2);
  learner.judge("one", 5, 1, 5);
  assert.equal(learner.shouldAsk(5.9), false);
  assert.equal(learner.shouldAsk(6), true);
  learner.holds([1, 1], 0);
  learner.answered();
  learner.acknowledged(6);
  learner.beacon({ version: [1, 2], steps: 0, state: "run" }, 6);
  assert.equal(learner.shouldAsk(6.9), false);
  assert.equal(learner.shouldAsk(7), true);
  learner.holds([1, 2], 0);
  assert.equal(learner.shouldAsk(7), false);
  learner.judge("one", 5, 1, 9);
  assert.equal(learner.shouldAsk(9), true); // 3 s without an acknowledgement
  learner.beacon({ version: [1, 9], steps: 0, state: "restoring" }, 9);
  assert.equal(learner.shouldAsk(11), false);
  learner.state = "run";
  assert.equal(learner.shouldAsk(12), false); // silent: subscriptions are repeated at a connection
});
