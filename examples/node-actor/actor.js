// An actor of Farflung in JavaScript: it plays CartPole for a learner, beside actors of any kind.
//   node actor.js [HOST[:PORT]] [--keys FILE] [--name NAME] [--envs 4]

import { appendFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { CartPole } from "./cartpole.js";
import { Client } from "./client.js";
import { Connection } from "./connection.js";
import { fullName, readKeys } from "./keys.js";
import { answer, choose, epsilonOf, loadPolicy } from "./policy.js";
import { randomFrom } from "./random.js";
import { Ending, Recorder } from "./recording.js";
import { carriedChecksum } from "./wire.js";

const SEATS = 64; // at most: a parcel has 64 horizons of rows
const WAIT_MS = 20; // for room, or for a learner
const PATIENCE_MS = 5000; // for the last acknowledgements

/** The environments of an actor, and the policy that it holds. */
class Player {
  constructor(client, seats) {
    Object.assign(this, { client, seats, run: "", joined: null, version: null });
  }

  /** Take over the newest weights; begin all episodes again in another run. */
  async prepare() {
    const { joined, weights, learner } = this.client;
    if (this.run !== learner.run) {
      const random = randomFrom(joined.spec.world.seed, joined.index, joined.start);
      this.worlds = Array.from({ length: this.seats }, () => new CartPole(random));
      Object.assign(this, { random, run: learner.run, version: null });
    }
    if (weights.version !== this.version) {
      this.session = await loadPolicy(joined.spec.graph, weights.data);
      this.version = weights.version;
    }
    this.joined = joined;
  }

  /** Play one window: `horizon` steps of every seat under one version. */
  async window() {
    const { joined: { spec, index }, version, worlds, random } = this;
    const recorder = new Recorder(spec, this.seats);
    worlds.forEach((world, seat) => recorder.begin(seat, seen(world)));
    const [first] = spec.graph.outputs; // the one that the head chooses by
    const steps = this.client.learner.steps;
    const epsilons = worlds.map((_, seat) =>
      epsilonOf(spec.exploration, steps, index * this.seats + seat));
    for (let step = 0; step < spec.horizon; step += 1) {
      const outputs = await answer(this.session, spec, worlds.map(({ state }) => state));
      outputs.forEach((output, seat) => {
        recorder.answered(seat, output);
        const choice = choose(spec.head, output[first.name], epsilons[seat], random);
        this.#act(recorder, seat, { ...output, ...choice });
      });
    }
    await recorder.complete((observations) => answer(this.session, spec, observations));
    return { ...recorder.parcel(), version };
  }

  #act(recorder, seat, choice) {
    const world = this.worlds[seat];
    const { reward, terminated, truncated } = world.step(choice.actions);
    const ending = terminated ? Ending.terminated : truncated ? Ending.truncated : Ending.open;
    recorder.add(seat, { ...choice, rewards: reward }, seen(world), ending);
    this.client.counters.steps += 1;
    if (ending === Ending.open) return;
    this.client.counters.episodes += 1;
    recorder.finish({ return: world.return, steps: world.steps });
    world.reset();
    recorder.begin(seat, seen(world));
  }
}

function seen({ state }) {
  return { observations: state };
}

/** Play until a signal or the end of the run; return the reason. */
async function play(client, connection, player, signal) {
  while (!signal.aborted) {
    await connection.exchange();
    if (client.learner.state === "stop") return "the run is over";
    if (!client.mayPlay(clock())) {
      await connection.wait(WAIT_MS);
      continue;
    }
    await player.prepare();
    const run = client.learner.run;
    const parcel = await player.window();
    if (client.learner.run === run) client.outbox.offer(parcel);
  }
  return "stopped by a signal";
}

/** Append a line for each acknowledged parcel; `learner audit --against` reads them. */
function keepReceipts(client, path) {
  client.outbox.released = (number, frame) => {
    const incarnation = client.outbox.incarnation.toString(16).padStart(16, "0");
    const checksum = carriedChecksum(frame).toString(16).padStart(8, "0");
    const { learner: { run }, policy, actor } = client;
    appendFileSync(path, `${[run, policy, actor, incarnation, number, checksum].join(" ")}\n`);
  };
}

function readArguments() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      keys: { type: "string", default: "" }, policy: { type: "string", default: "default" },
      name: { type: "string", default: `node-${process.pid}` },
      envs: { type: "string", default: "4" }, "feed-port": { type: "string", default: "" },
      acknowledged: { type: "string", default: "" }, // a file for receipts
    },
  });
  const address = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(positionals[0] ?? "127.0.0.1");
  const [, host, written] = address ?? [];
  const seats = Number(values.envs);
  if (!host) throw new Error(`${positionals[0]} is no address: write HOST or HOST:PORT`);
  if (!(seats >= 1 && seats <= SEATS)) throw new Error(`--envs ${values.envs}: 1 to ${SEATS}`);
  const port = Number(written ?? 5555);
  return { ...values, host, seats, port, feedPort: Number(values["feed-port"]) || port + 1 };
}

function clock() {
  return performance.now() / 1000;
}

async function main() {
  const options = readArguments();
  const keys = readKeys(options.keys);
  const abort = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => abort.abort());
  const actor = fullName(keys, options.name);
  const client = new Client({ policy: options.policy, actor, seats: options.seats }, clock());
  if (options.acknowledged) keepReceipts(client, options.acknowledged);
  const connection = new Connection(client, { ...options, keys }, clock);
  client.log = (sentence) => console.log(`actor ${actor}: ${sentence}`);
  client.log(`waiting for a learner at ${options.host}:${options.port}`);
  const reason = await play(client, connection, new Player(client, options.seats), abort.signal);
  await connection.close(reason, PATIENCE_MS);
  const { books } = client.outbox;
  client.log(`${reason}; ${client.counters.steps} steps, ${client.counters.episodes} episodes, ` +
    `parcels: ${JSON.stringify(books)}`);
}

main().catch((error) => {
  console.error(`actor: ${error.message}`);
  process.exit(1);
});
