// A spec: what this actor can play of it, its columns, and the hash by which rows are known.

import { createHash } from "node:crypto";

const WORLD = "CartPole-v1";
const HEADS = { q: ["log_probability", "action_value", "best_value"], logits: ["log_probability"] };

/** Throw a sentence if this actor cannot play a spec: it sends nothing then. */
export function requirePlayable(spec) {
  const { world, action, head, extras } = spec;
  const observation = spec.observation[""];
  const known = [...(HEADS[head] ?? []), ...spec.graph.outputs.map(({ name }) => name)];
  const others = extras.filter(({ name, per }) => per !== "result" && !known.includes(name));
  const unlike = {
    world: world.environment !== WORLD && `it is ${world.environment}`,
    "world's arguments": Object.keys(world.arguments).length + world.wrappers.length > 0,
    agents: Object.keys(world.seats).length + Object.keys(world.scripts).length > 0,
    observation: `${observation?.dtype} ${observation?.shape}` !== "float32 4",
    action: action.kind !== "discrete" || action.sizes[0] !== 2,
    head: !HEADS[head] && `it is ${head}`,
    stack: spec.stack !== 1 && `it is ${spec.stack}`,
    rounds: spec.rounds !== null,
    "self-play": spec.selfplay !== null,
    "learning alone": spec.frozen || spec.learning?.alone === true,
    inputs: spec.graph.inputs.some(({ name }) => name !== "observations"),
    column: others.length > 0 && `it asks for ${others[0]?.name}`,
  };
  const [part, reason] = Object.entries(unlike).find(([, found]) => found) ?? [];
  if (part) throw new Error(
    `this actor plays ${WORLD} without rounds or self-play, by the head q or logits; it cannot ` +
    `play the ${part} of this learner${reason === true ? "" : `: ${reason}`}`);
}

/** Return the columns of rows in the order of the table, then those per result. */
export function columnsOf(spec) {
  const { dtype, shape } = spec.observation[""];
  const rows = [
    { name: "observations", dtype, shape, per: "observation" },
    { name: "actions", dtype: spec.action.dtype, shape: spec.action.shape, per: "step" },
    { name: "rewards", dtype: "float32", shape: [], per: "step" },
    ...spec.extras.filter(({ per }) => per !== "result"),
  ];
  return { rows, results: spec.extras.filter(({ per }) => per === "result") };
}

/** Return the schema: a hash of what a receiver of rows relies on. */
export function schemaOf(spec) {
  const { rows, results } = columnsOf(spec);
  const lines = [`horizon ${spec.horizon}`, `stack ${spec.stack}`];
  for (const { per, dtype, shape, name } of [...rows, ...results])
    lines.push(`column ${per} ${dtype} ${shape.join("x") || "-"} ${name}`);
  const leaves = { observations: spec.observation[""], actions: spec.action };
  for (const [name, { sizes }] of Object.entries(leaves))
    if (sizes.length) lines.push(`choices ${sizes.join("x")} ${name}`);
  const text = lines.map((line) => `${line}\n`).join("");
  return createHash("sha256").update(text, "utf8").digest("hex").slice(0, 16);
}
