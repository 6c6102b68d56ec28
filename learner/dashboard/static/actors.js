// The actors of a run as a table that can be sorted, and one of them in detail.

import { Chart } from "./charts.js";
import { Sheet } from "./tables.js";
import { count, duration, element, figure, percent, rate, say } from "./text.js";

const REMEMBERED = 600; // seconds of the actor in detail
const STYLES = { silent: "silent-word", waiting: "waiting-word" };

const number = (title, name, text = count) => ({ title, value: (actor) => actor[name], text: (actor) => text(actor[name]) });

const COLUMNS = [
  { title: "actor", value: (actor) => actor.name, words: true },
  { title: "state", value: (actor) => actor.state, words: true, style: (actor) => STYLES[actor.state] ?? "" },
  number("steps/s", "steps_per_second", rate),
  number("seats", "seats"),
  number("episodes", "episodes"),
  number("version", "version"),
  number("parcels", "acknowledged"),
  number("waiting", "waiting"),
  number("seen", "seen_ago", (seconds) => (seconds < 10 ? `${seconds.toFixed(1)} s` : duration(seconds))),
];

export class Actors {
  constructor(root) {
    this.sum = element("p", "about");
    this.sheet = new Sheet(COLUMNS, { key: (actor) => actor.name, sort: 0, pick: (name) => this.pick(name) });
    this.detail = element("section", "panel");
    this.detail.hidden = true;
    this.picked = null;
    this.empty = element("p", "empty");
    root.replaceChildren(this.sum, this.detail, this.sheet.root, this.empty);
  }

  show({ status }) {
    const actors = status?.actors ?? [];
    this.sheet.root.hidden = !actors.length;
    this.empty.hidden = actors.length > 0;
    say(this.empty, status ? `no actor yet${status.join ? `; start one with: ${status.join}` : ""}` : "Actors are known of runs that are heard.");
    const states = {};
    for (const actor of actors) states[actor.state] = (states[actor.state] ?? 0) + 1;
    const more = status?.more_actors ? [`${count(status.more_actors)} without a row`] : [];
    say(this.sum, [...Object.entries(states).map(([state, many]) => `${count(many)} ${state}`), ...more].join(", "));
    this.sheet.show(actors);
    for (const [name, line] of this.sheet.rows) line.classList.toggle("picked", name === this.picked);
    for (const actor of actors) this.sheet.rows.get(actor.name)?.classList.toggle("left", actor.state === "left");
    this.status = status;
    this.showPicked();
  }

  pick(name) {
    this.picked = name === this.picked ? null : name;
    this.past = [[], [], []];
    this.chart?.end();
    this.chart = null;
    this.detail.hidden = this.picked == null;
    if (this.picked != null) {
      this.facts = element("dl");
      this.chart = new Chart("since it was opened", [
        { label: "steps/s", shade: "blue", value: rate },
        { label: "parcels waiting", shade: "orange", scale: "parcels", value: count },
      ]);
      this.detail.replaceChildren(element("h3", "", this.picked), this.facts, this.chart.root);
    }
    if (this.status) this.show({ status: this.status });
  }

  showPicked() {
    const actor = this.status?.actors.find((each) => each.name === this.picked);
    if (!actor) return;
    const facts = {
      state: actor.state,
      "steps per second": rate(actor.steps_per_second),
      "steps not recorded": count(actor.lost_steps),
      "seats, episodes": `${count(actor.seats)}, ${count(actor.episodes)}`,
      "version in use": `${count(actor.version)} of ${count(this.status.version)}`,
      "parcels acknowledged, waiting": `${count(actor.acknowledged)}, ${count(actor.waiting)}`,
      "last heard": `${figure(actor.seen_ago)} s ago`,
      "brought a parcel": actor.proven ? "yes" : "not yet",
    };
    const time = Object.entries(actor.time ?? {}).filter(([, share]) => share >= 0.005);
    if (time.length) facts["time"] = time.map(([part, share]) => `${part} ${percent(share)}`).join(", ");
    if (actor.hangs_s) facts["one step takes"] = `${figure(actor.hangs_s)} s so far`;
    for (const [name, value] of Object.entries(actor.real_time ?? {})) facts[`real time: ${name.replaceAll("_", " ")}`] = figure(value);
    this.facts.replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
    const at = Date.now() / 1000;
    const [times, speeds, waits] = this.past;
    if (!times.length || at - times.at(-1) > 0.5) {
      times.push(at);
      speeds.push(actor.steps_per_second);
      waits.push(actor.waiting);
      if (times.length > REMEMBERED) for (const values of this.past) values.shift();
    }
    this.chart.show(this.past, "time");
  }

  redraw() {
    this.chart?.redraw();
  }

  end() {
    this.chart?.end();
  }
}
