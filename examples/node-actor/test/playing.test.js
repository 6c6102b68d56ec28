// Recording, choices, the schema and the check of a graph, against what the protocol says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { CartPole } from "../cartpole.js";
import { requireSafe } from "../graph.js";
import { choose, epsilonOf } from "../policy.js";
import { randomFrom } from "../random.js";
import { Ending, Recorder } from "../recording.js";
import { requirePlayable, schemaOf } from "../spec.js";

const METRIC = { name: "result.is_success", dtype: "float64", shape: [], per: "result" };

function spec(changes = {}) {
  const space = { dtype: "float32", shape: [4], sizes: [] };
  return {
    world: { environment: "CartPole-v1", arguments: {}, wrappers: [], seats: {}, scripts: {} },
    observation: { "": space }, action: { kind: "discrete", dtype: "int64", shape: [], sizes: [2] },
    head: "q", horizon: 32, stack: 1, extras: [], rounds: null, selfplay: null, learning: null,
    frozen: false,
    graph: { inputs: [{ name: "observations" }], outputs: [{ name: "q", shape: [2] }] },
    ...changes,
  };
}

test("the schema of CartPole is that of the page", () => {
  assert.equal(schemaOf(spec()), "7a1ca583fb6b55a9");
  assert.notEqual(schemaOf(spec({ extras: [METRIC] })), "7a1ca583fb6b55a9");
});

test("what this actor cannot play is refused in a sentence", () => {
  requirePlayable(spec());
  requirePlayable(spec({ extras: [METRIC] }));
  assert.throws(() => requirePlayable(spec({ head: "gaussian" })), /head of .*: it is gaussian/);
  assert.throws(() => requirePlayable(spec({ stack: 4 })), /stack/);
  const mask = { name: "info.action_mask", dtype: "bool", shape: [2], per: "observation" };
  assert.throws(() => requirePlayable(spec({ extras: [mask] })), /info.action_mask/);
});

test("trajectories have one observation more than steps, seat after seat", () => {
  const recorder = new Recorder(spec({ extras: [METRIC] }), 2);
  const seen = (number) => ({ observations: [number, 0, 0, 0] });
  const row = (actions) => ({ actions, rewards: 1 });
  recorder.begin(0, seen(10));
  recorder.begin(1, seen(20));
  recorder.add(1, row(1), seen(21), Ending.terminated);
  recorder.finish({ return: 7, steps: 9 });
  recorder.begin(1, seen(30)); // of an episode without steps in this window
  recorder.add(0, row(0), seen(11), Ending.open);
  recorder.add(0, row(1), seen(12), Ending.open);
  const { columns, rows } = recorder.parcel();
  const found = Object.fromEntries(
    columns.map(({ name, array }) => [name, Array.from(array, Number)]));
  assert.equal(rows, 3);
  assert.deepEqual(found.observations.filter((number) => number), [10, 11, 12, 20, 21]);
  assert.deepEqual(columns[0].shape, [5, 4]);
  assert.deepEqual(found.actions, [0, 1, 1]);
  assert.deepEqual(found.lengths, [2, 1]);
  assert.deepEqual(found.endings, [0, 1]);
  assert.deepEqual([found.result_returns, found.result_lengths], [[7], [9]]);
  assert.deepEqual(found["result.is_success"], [NaN]);
  assert.equal(columns.at(-1).name, "result.is_success");
});

test("an output of the graph is a column per observation, at the last frame too", async () => {
  const value = { name: "value", dtype: "float32", shape: [], per: "observation" };
  const recorder = new Recorder(spec({ extras: [value] }), 1);
  const seen = (number) => ({ observations: [number, 0, 0, 0] });
  recorder.begin(0, seen(1));
  recorder.answered(0, { value: 0.5 });
  recorder.add(0, { actions: 0, rewards: 1 }, seen(2), Ending.truncated);
  recorder.begin(0, seen(3));
  recorder.answered(0, { value: 1.5 });
  recorder.add(0, { actions: 0, rewards: 1 }, seen(4), Ending.open);
  await recorder.complete(async (all) => all.map(([number]) => ({ value: number * 10 })));
  const [column] = recorder.parcel().columns.filter(({ name }) => name === "value");
  assert.deepEqual(Array.from(column.array), [0.5, 20, 1.5, 40]);
});

test("epsilon falls with the learner's steps and has an exponent for each rung", () => {
  const exploration = { start: 1, end: 0.1, steps: 100, ladder: 0 };
  assert.equal(epsilonOf(exploration, 0, 0), 1);
  assert.ok(Math.abs(epsilonOf(exploration, 50, 0) - 0.55) < 1e-12);
  assert.ok(Math.abs(epsilonOf(exploration, 900, 3) - 0.1) < 1e-12);
  assert.equal(epsilonOf({ ...exploration, steps: 0 }, 0, 0), 0.1);
  const laddered = { ...exploration, ladder: 4 };
  assert.ok(Math.abs(epsilonOf(laddered, 100, 7) - 1e-8) < 1e-20); // rung 3 of 4: the power of 8
});

test("the highest value is chosen, any action with epsilon, and logits are drawn", () => {
  const random = randomFrom(1);
  const greedy = choose("q", [0.5, 2], 0, random);
  assert.deepEqual([greedy.actions, greedy.action_value, greedy.best_value], [1, 2, 2]);
  assert.equal(greedy.log_probability, 0);
  const counted = (head, values, epsilon) => {
    let ones = 0;
    for (let draw = 0; draw < 20_000; draw += 1)
      ones += choose(head, values, epsilon, random).actions;
    return ones / 20_000;
  };
  assert.ok(Math.abs(counted("q", [0.5, 2], 0.4) - 0.8) < 0.02);
  assert.ok(Math.abs(counted("logits", [0, Math.log(3)], 0) - 0.75) < 0.02);
  const drawn = choose("logits", [0, Math.log(3)], 0, random);
  assert.ok(Math.abs(Math.exp(drawn.log_probability) - (drawn.actions ? 0.75 : 0.25)) < 1e-12);
});

test("streams of random numbers are even, repeat with their seed and differ without it", () => {
  const many = (...words) => Array.from({ length: 10_000 }, randomFrom(...words));
  const first = many(7, 0, 1);
  assert.deepEqual(first, many(7, 0, 1));
  for (const other of [many(7, 1, 1), many(7, 0, 2), many(2 ** 33 + 7, 0, 1)])
    assert.ok(first.filter((number, place) => number === other[place]).length < 5);
  const mean = first.reduce((sum, number) => sum + number, 0) / first.length;
  assert.ok(Math.abs(mean - 0.5) < 0.02 && Math.min(...first) >= 0 && Math.max(...first) < 1);
});

test("an episode is cut after 500 steps and ends where the pole has fallen", () => {
  const world = new CartPole(randomFrom(3));
  world.begin([0, 0, 0.2, 1]);
  assert.deepEqual(world.step(1), { reward: 1, terminated: true, truncated: false });
  world.begin([0, 0, 0, 0]);
  world.steps = 499;
  assert.deepEqual(world.step(1), { reward: 1, terminated: false, truncated: true });
});

test("a graph with functions, control flow or a file is refused", () => {
  const text = (value) => Buffer.from(value);
  const field = (number, bytes) => {
    const key = (number << 3) | 2;
    const head = key < 128 ? [key] : [(key & 127) | 128, key >> 7];
    return Buffer.concat([Buffer.from([...head, bytes.length]), bytes]);
  };
  const graph = (...parts) => field(7, Buffer.concat(parts));
  const entry = (place) => Buffer.concat([field(1, text("location")), field(2, text(place))]);
  const location = (place) => field(5, field(13, entry(place)));
  requireSafe(graph(location("weights"), field(1, field(4, text("Relu")))));
  assert.throws(() => requireSafe(graph(location("/etc/passwd"))), /in a file/);
  assert.throws(() => requireSafe(graph(field(1, field(5, field(6, text("")))))), /control flow/);
  assert.throws(() => requireSafe(graph(field(1, field(7, text("com.microsoft"))))), /ONNX's own/);
  assert.throws(() => requireSafe(field(25, text(""))), /functions/);
  assert.throws(() => requireSafe(Buffer.from([0x3a, 0x50])), /damaged/);
});
