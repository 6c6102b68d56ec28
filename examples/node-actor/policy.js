// The policy of one version: a session of onnxruntime, and the choice of actions by its outputs.

import { InferenceSession, Tensor } from "onnxruntime-node";
import { requireSafe } from "./graph.js";

const OPTIONS = { intraOpNumThreads: 1, interOpNumThreads: 1, logSeverityLevel: 3 };
const LADDER_POWER = 7; // rungs have exponents of epsilon from 1 to 8

/** Return the session of a graph with the weights of one message, used as they stand. */
export async function loadPolicy(graph, weights) {
  requireSafe(graph.model);
  const externalData = [{ path: "weights", data: weights }];
  return InferenceSession.create(graph.model, { ...OPTIONS, externalData });
}

/** Return the graph's outputs by name for each of N observations [N, ...shape]. */
export async function answer(session, spec, observations) {
  const { shape } = spec.observation[""];
  const size = sizeOf(shape);
  const data = new Float32Array(observations.length * size);
  observations.forEach((seen, place) => data.set(seen, place * size));
  const input = new Tensor("float32", data, [observations.length, ...shape]);
  const found = await session.run({ observations: input });
  const outputs = spec.graph.outputs;
  return observations.map((_, place) => Object.fromEntries(
    outputs.map(({ name, shape: own }) => [name, element(found[name].data, own, place)])));
}

/** Return one element of a batch: an array, or a number where it has no dimensions. */
function element(data, shape, place) {
  const size = sizeOf(shape);
  return shape.length ? data.subarray(place * size, (place + 1) * size) : data[place];
}

function sizeOf(shape) {
  return shape.reduce((product, length) => product * length, 1);
}

/** Return epsilon of a seat: on a ladder each has its own exponent. */
export function epsilonOf({ start, end, steps, ladder }, learnerSteps, place) {
  const epsilon = steps ? start + (end - start) * Math.min(1, learnerSteps / steps) : end;
  const exponent = ladder < 2 ? 1 : 1 + (LADDER_POWER * (place % ladder)) / (ladder - 1);
  return epsilon ** exponent;
}

/** Return the choice of a head by its values, with the columns that it can add to the row. */
export function choose(head, values, epsilon, random) {
  return head === "q" ? chooseByValue(values, epsilon, random) : chooseByLogits(values, random);
}

function chooseByValue(values, epsilon, random) {
  const best = values.indexOf(Math.max(...values));
  const action = random() < epsilon ? Math.floor(random() * values.length) : best;
  const probability = (action === best ? 1 - epsilon : 0) + epsilon / values.length;
  return {
    actions: action, log_probability: Math.log(probability),
    action_value: values[action], best_value: values[best],
  };
}

function chooseByLogits(logits, random) {
  const highest = Math.max(...logits);
  const weights = Array.from(logits, (logit) => Math.exp(logit - highest));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  let left = random() * total;
  let action = weights.findIndex((weight) => (left -= weight) < 0);
  if (action < 0) action = weights.length - 1; // what rounding left over
  return { actions: action, log_probability: Math.log(weights[action] / total) };
}
