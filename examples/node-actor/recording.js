// Windows of trajectories, and the parcel that each becomes.

import { columnsOf } from "./spec.js";
import { zeros } from "./wire.js";

export const Ending = { open: 0, terminated: 1, truncated: 2 };

/** The steps of all seats in one window, under one version of the weights. */
export class Recorder {
  constructor(spec, seats) {
    this.columns = columnsOf(spec);
    this.seats = Array.from({ length: seats }, () => []); // trajectories, oldest first
    this.results = []; // of the episodes that finished
    this.steps = 0;
  }

  /** Note that a seat sees this at the beginning of the window or of an episode. */
  begin(seat, observation) {
    this.seats[seat].push({ observations: [observation], steps: [], ending: Ending.open });
  }

  /** Note what the graph answered to what a seat saw last: columns per observation keep it. */
  answered(seat, outputs) {
    Object.assign(this.seats[seat].at(-1).observations.at(-1), outputs);
  }

  /** Ask the graph at the last frame of each trajectory, if a column has its answers there. */
  async complete(ask) {
    const [, ...extras] = this.columns.rows.filter(({ per }) => per === "observation");
    if (!extras.length) return;
    const lasts = this.#trajectories.map(({ observations }) => observations.at(-1));
    const outputs = await ask(lasts.map(({ observations }) => observations));
    lasts.forEach((last, place) => Object.assign(last, outputs[place]));
  }

  get #trajectories() {
    return this.seats.flat().filter(({ steps }) => steps.length);
  }

  /** Note a step: its row by the names of columns, what the seat saw next, and an ending. */
  add(seat, row, observation, ending) {
    const trajectory = this.seats[seat].at(-1);
    trajectory.observations.push(observation);
    trajectory.steps.push(row);
    trajectory.ending = ending;
    this.steps += 1;
  }

  /** Note the return and length of an episode that finished. */
  finish(result) {
    this.results.push(result);
  }

  /** Return the columns of a parcel: trajectories of the first seat, of the second, and so on. */
  parcel() {
    const trajectories = this.#trajectories;
    const all = {
      observation: trajectories.flatMap(({ observations }) => observations),
      step: trajectories.flatMap(({ steps }) => steps),
    };
    const columns = this.columns.rows.map((column) =>
      filled(column, all[column.per].map((item) => item[column.name])));
    const count = (name, dtype, values) => filled({ name, dtype, shape: [] }, values);
    columns.push(
      count("lengths", "int32", trajectories.map(({ steps }) => steps.length)),
      count("endings", "uint8", trajectories.map(({ ending }) => ending)),
      count("result_returns", "float64", this.results.map((result) => result.return)),
      count("result_lengths", "int32", this.results.map((result) => result.steps)));
    for (const column of this.columns.results) // CartPole reports no metric of its own
      columns.push(filled(column, this.results.map(() => NaN)));
    return { columns, rows: this.steps };
  }
}

/** Return a column with one element for each value: a number, or an array of them. */
function filled({ name, dtype, shape }, values) {
  const size = shape.reduce((product, length) => product * length, 1);
  const array = zeros(dtype, values.length * size);
  const number = dtype === "int64" ? BigInt : Number;
  values.forEach((value, index) => {
    if (shape.length) array.set(value, index * size);
    else array[index] = number(value);
  });
  return { name, dtype, shape: [values.length, ...shape], array };
}
