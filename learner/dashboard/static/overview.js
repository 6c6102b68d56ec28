// The overview: what a person looks at first, as tiles and charts.

import { Chart } from "./charts.js";
import { Steering } from "./steering.js";
import { compact, count, duration, element, figure, percent, rate, say, size, UNKNOWN } from "./text.js";

const SHADES = ["blue", "orange", "green", "purple", "red", "teal", "pink", "gray"];
const COUNTERS = new Set(["train/n_updates", "train/skipped_updates", "train/updates_per_second", "train/version"]);
const LOSSES = 12; // charts of the algorithm's metrics

const line = (name, label, shade, more = {}) => ({ name, label, shade, ...more });

const RETURN = "rollout/ep_rew_mean";
const CHARTS = [
  {
    title: "Return",
    order: 0,
    unit: "mean of 100 episodes ± their deviation",
    wide: true,
    lines: [
      line("return high", "", "blue", { hidden: true }),
      line("return low", "", "blue", { hidden: true }),
      line(RETURN, "return", "blue"),
      line("eval/mean_reward", "evaluation", "orange", { points: true }),
    ],
    bands: [[1, 2, "blue"]],
  },
  {
    title: "Speed",
    order: 0,
    lines: [
      line("time/fps", "env steps/s", "blue", { value: rate }),
      line("train/updates_per_second", "updates/s", "orange", { scale: "updates", value: rate }),
    ],
  },
  {
    title: "Replay ratio",
    order: 0,
    unit: "samples for each step",
    lines: [
      line("pacing/replay_ratio", "held", "blue"),
      line("pacing/replay_ratio_wanted", "wanted", "orange", { dash: [6, 4] }),
    ],
  },
  {
    title: "Policy lag",
    order: 0,
    unit: "versions",
    lines: [line("pacing/policy_lag_p50", "median", "blue"), line("pacing/policy_lag_p95", "p95", "orange")],
  },
  {
    title: "Waiting",
    order: 0,
    unit: "part of the time that one side waits for the other",
    lines: [line("pacing/waiting", "waits", "purple", { value: percent })],
  },
  {
    title: "Episode length",
    lines: [line("rollout/ep_len_mean", "steps", "teal")],
  },
  {
    title: "Replay and actors",
    lines: [
      line("replay/size", "rows", "teal", { value: compact }),
      line("actors/present", "actors", "purple", { scale: "actors", value: count }),
    ],
  },
  {
    title: "Replay age",
    unit: "since its oldest row was collected",
    lines: [line("replay age", "oldest row", "teal", { value: duration })],
  },
  {
    title: "Network",
    unit: "bytes per second",
    lines: [line("network/in", "in", "blue", { value: size }), line("network/out", "out, to each", "orange", { value: size })],
  },
  {
    title: "Learner's process",
    lines: [
      line("machine/cpu", "cpu %", "blue"),
      line("machine/memory", "memory", "orange", { scale: "bytes", value: size }),
    ],
  },
];

const TILES = [
  ["env steps", "steps"],
  ["return", "return"],
  ["evaluation", "evaluation"],
  ["env steps/s", "fps"],
  ["updates/s", "updates"],
  ["replay ratio", "ratio"],
  ["policy lag", "lag"],
  ["replay", "replay"],
  ["actors", "actors"],
  ["goal", "goal"],
];

export class Overview {
  constructor(root, settings) {
    this.settings = settings; // {by}, kept beside this page
    this.about = element("p", "about");
    this.waits = element("p", "waits", null, element("span", "quiet", "waiting: "), element("b"));
    this.tiles = Object.fromEntries(TILES.map(([label, key]) => [key, tile(label)]));
    this.verdict = element("p", "waits", null, element("span", "quiet", "verdict: "), element("b"));
    this.steering = new Steering();
    this.split = new Split("Where an update's time goes");
    this.training = new Split("Where the learner's time goes");
    this.acting = new Split("Where the actors' time goes");
    this.charts = new Map();
    this.grid = element("div", "charts");
    this.buttons = ["steps", "time"].map((by) => {
      const button = element("button", "", `by ${by}`);
      button.type = "button";
      button.addEventListener("click", () => {
        this.settings.by = by;
        this.press();
        if (this.table) this.curves(this.table);
      });
      return button;
    });
    this.press();
    const tiles = element("div", "tiles", null, ...Object.values(this.tiles).map((each) => each.root));
    const tools = element("div", "tools", null, ...this.buttons, element("span", "quiet", "drag to zoom, double-click to go back"));
    root.replaceChildren(this.about, this.waits, this.verdict, this.steering.root, tiles, this.training.root, this.acting.root, this.split.root, tools, this.grid);
  }

  press() {
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(button.textContent === `by ${this.settings.by}`));
  }

  show(detail) {
    const status = detail.status;
    for (const each of [this.split, this.training, this.acting]) each.root.hidden = !status;
    this.waits.hidden = !status;
    this.verdict.hidden = !status?.verdict.sentence;
    this.steering.show(detail);
    if (status) this.showStatus(status, detail);
    else this.showSummary(detail.run, detail.versions);
  }

  showStatus(status, detail) {
    const where = status.device && status.algorithm ? ` on ${status.device}` : "";
    const parts = [status.environment, `${status.algorithm}${where}`, status.mode, status.policy === "default" ? "" : `policy ${status.policy}`, `${detail.lasted} since this start, epoch ${status.epoch}`, ...Object.entries(status.steered).map(([key, value]) => `${key} set to ${value}`), status.join];
    say(this.about, parts.filter(Boolean).join(" · "));
    say(this.waits.lastChild, detail.waiting || "neither side");
    say(this.verdict.lastChild, status.verdict.sentence);
    const { tiles } = this;
    const evaluation = status.evaluation;
    const target = status.steps_target;
    tiles.steps.say(count(status.steps), target ? `${percent(Math.min(1, status.steps / target))} of ${count(target)}` : `${count(status.episodes)} episodes`);
    const deviation = status.return_spread == null ? "" : `± ${figure(status.return_spread)}, `;
    tiles.return.say(figure(status.return_mean), `${deviation}length ${figure(status.length_mean)}`);
    tiles.evaluation.say(evaluation ? figure(evaluation.mean) : UNKNOWN, evaluation ? `best ${figure(evaluation.best)}, version ${count(evaluation.version)}` : "none yet");
    tiles.fps.say(rate(status.steps_per_second), `${count(status.episodes)} episodes`);
    tiles.updates.say(rate(status.updates_per_second), `${count(status.updates)} in all, version ${count(status.version)}`);
    const wanted = status.ratio_wanted == null ? "" : `${figure(status.ratio_wanted)} wanted`;
    tiles.ratio.say(figure(status.ratio_held), wanted);
    tiles.lag.say(status.lag_p50 == null ? UNKNOWN : count(status.lag_p50), status.lag_p95 == null ? "versions" : `versions; p95 ${count(status.lag_p95)}`);
    tiles.replay.say(compact(status.replay_size), status.replay_capacity ? `${percent(status.replay_size / status.replay_capacity)} of ${compact(status.replay_capacity)}` : "");
    const absent = status.actors.filter((each) => ["silent", "left"].includes(each.state)).length;
    tiles.actors.say(count(status.actors.length - absent + status.more_actors), absent ? `${count(absent)} silent or gone` : "all there");
    tiles.goal.root.hidden = !status.until;
    tiles.goal.say(status.goal_seconds == null ? "not in sight" : `about ${duration(status.goal_seconds)}`, status.until);
    const all = Object.values(status.update_split).reduce((sum, seconds) => sum + seconds, 0);
    this.split.show(status.update_split, "in all ", `${figure(1000 * all)} ms`);
    this.training.show(status.training_time, "of the last seconds");
    this.acting.show(status.actors_time, "the mean of those that collect, of the last seconds");
  }

  showSummary(run, versions) {
    const parts = [run.environment, run.algorithm, run.started && `started ${run.started}`, ...Object.entries(versions).map(([name, version]) => `${name} ${version}`), run.ended];
    say(this.about, parts.filter(Boolean).join(" · "));
    const { tiles } = this;
    for (const key of ["fps", "updates", "ratio", "lag", "replay", "actors", "goal"]) tiles[key].root.hidden = true;
    tiles.steps.say(count(run.steps), "");
    tiles.return.say(figure(run.return), "");
    tiles.evaluation.say(figure(run.last), `best ${figure(run.best)}`);
  }

  curves(table) {
    this.table = table;
    const by = this.settings.by;
    const data = derived(table);
    for (const plan of plans(table)) {
      if (!plan.lines.some((each) => each.name in data || table.has(each.name))) continue;
      let chart = this.charts.get(plan.title);
      if (!chart) {
        chart = new Chart(plan.title, plan.lines, plan);
        if (plan.wide) chart.root.classList.add("wide");
        chart.root.style.order = plan.order ?? 2;
        this.charts.set(plan.title, chart);
        this.grid.append(chart.root);
      }
      chart.show([table[by], ...plan.lines.map((each) => data[each.name] ?? table.values(each.name))], by);
    }
    this.grid.hidden = table.rows === 0;
  }

  redraw() {
    for (const chart of this.charts.values()) chart.redraw();
  }

  end() {
    for (const chart of this.charts.values()) chart.end();
  }
}

// Curves that follow from others: the band of the return, and shares of an update.
function derived(table) {
  const found = {};
  const mean = table.values(RETURN);
  const spread = table.values("rollout/ep_rew_std");
  const low = table.values(RETURN, "low");
  const high = table.values(RETURN, "high");
  found["return high"] = mean.map((value, at) => (value == null ? null : Math.max(high[at], value + (spread[at] ?? 0))));
  found["return low"] = mean.map((value, at) => (value == null ? null : Math.min(low[at], value - (spread[at] ?? 0))));
  if (table.has("replay/size")) found["replay age"] = ages(table);
  const parts = Object.keys(table.curves).filter((name) => name.startsWith("split/"));
  if (parts.length) {
    const columns = parts.map((name) => table.values(name));
    const whole = columns[0].map((_, at) => columns.reduce((sum, column) => sum + (column[at] ?? 0), 0));
    parts.forEach((name, number) => {
      found[`share ${name}`] = columns[number].map((value, at) => (value == null || !whole[at] ? null : value / whole[at]));
    });
  }
  return found;
}

// How long ago the steps passed that the oldest row is of. A curve that begins later knows nothing.
function ages({ time, steps, curves }) {
  const sizes = curves["replay/size"].mean;
  let from = 0;
  return steps.map((now, at) => {
    if (sizes[at] == null) return null;
    const first = now - sizes[at];
    if (steps[from] > first) from = 0;
    while (from + 1 < at && steps[from + 1] <= first) from += 1;
    return steps[from] <= Math.max(first, now / 10) ? time[at] - time[from] : null;
  });
}

function* plans(table) {
  yield* CHARTS;
  const names = Object.keys(table.curves);
  const parts = names.filter((name) => name.startsWith("split/"));
  if (parts.length)
    yield {
      title: "Time of an update",
      unit: "shares of its parts",
      lines: parts.map((name, number) => line(`share ${name}`, name.slice(6), SHADES[number % SHADES.length], { value: percent })),
    };
  const own = names.filter((name) => name.startsWith("train/") && !COUNTERS.has(name)).slice(0, LOSSES);
  for (const name of own)
    yield { order: 1, title: name.slice(6).replaceAll("_", " "), lines: [line(name, name, "blue")] };
}

function tile(label) {
  const value = element("b", "", UNKNOWN);
  const note = element("small");
  return {
    root: element("div", "tile", null, element("span", "", label), value, note),
    say(text, small) {
      say(value, text);
      say(note, small);
      note.title = small;
    },
  };
}

// A time as one bar of its parts.
class Split {
  constructor(title) {
    this.bar = element("div", "bar");
    this.legend = element("div", "legend");
    this.root = element("section", "panel", null, element("h3", "", title), this.bar, this.legend);
  }

  show(split, words, sum = "") {
    const parts = Object.entries(split).filter(([, seconds]) => seconds > 0);
    const whole = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
    this.root.hidden = !whole;
    if (!whole) return;
    this.bar.replaceChildren(
      ...parts.map(([, seconds], number) => {
        const part = element("i", `fill ${SHADES[number % SHADES.length]}`);
        part.style.width = `${(100 * seconds) / whole}%`;
        return part;
      }),
    );
    this.legend.replaceChildren(
      ...parts.map(([name, seconds], number) =>
        element("span", "", null, element("i", `key ${SHADES[number % SHADES.length]}`), `${name} `, element("b", "", percent(seconds / whole))),
      ),
      element("span", "", null, words, element("b", "", sum)),
    );
  }
}

