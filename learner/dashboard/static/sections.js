// Sections of a run that are lists: problems, evaluations, games and checkpoints, configuration.

import { get } from "./api.js";
import { Sheet } from "./tables.js";
import { clock, count, element, figure, say, size, UNKNOWN } from "./text.js";

const LOOK_MS = 10000; // between two looks at the videos in a folder

export class Problems {
  constructor(root) {
    this.sums = element("dl");
    this.list = element("div");
    this.empty = element("p", "empty", "No problem is known.");
    root.replaceChildren(this.sums, this.empty, this.list);
    this.shown = "";
  }

  show({ status, run }) {
    const problems = status ? [...status.problems].reverse() : [];
    if (run.state === "failed" || run.state === "damaged") problems.unshift(run.ended);
    const texts = new Map((status?.problem_texts ?? []).map((each) => [each.problem, each.lines]));
    const sums = sumsOf(status);
    const news = JSON.stringify([problems, [...texts], sums]);
    if (news === this.shown) return; // an opened traceback stays open
    this.shown = news;
    this.empty.hidden = problems.length > 0 || sums.length > 0;
    this.sums.replaceChildren(...sums.flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]));
    this.list.replaceChildren(...problems.map((problem) => problemOf(problem, texts.get(problem))));
  }
}

function problemOf(problem, lines) {
  if (!lines) return element("div", "problem", problem);
  const all = element("details", "", null, element("summary", "", problem), element("pre", "", lines.join("\n")));
  all.open = true;
  return all;
}

function sumsOf(status) {
  if (!status) return [];
  const found = [];
  const refused = Object.entries(status.refused).map(([reason, many]) => `${reason} ${count(many)}`);
  if (refused.length) found.push(["parcels refused", refused.join(", ")]);
  if (status.duplicates) found.push(["parcels that came again", count(status.duplicates)]);
  if (status.lost) found.push(["parcels given up", count(status.lost)]);
  if (status.skipped) found.push(["updates skipped", `${count(status.skipped)} of ${count(status.updates)}: loss or gradients were not finite`]);
  return found;
}

export class Evaluations {
  constructor(root, run) {
    this.run = run;
    this.sheet = new Sheet(
      [
        { title: "when", value: (row) => row.time, text: (row) => clock(row.time) },
        { title: "env steps", value: (row) => row.steps, text: (row) => count(row.steps) },
        { title: "version", value: (row) => row.version, text: (row) => count(row.version) },
        { title: "mean return", value: (row) => row.mean, text: (row) => figure(row.mean) },
        { title: "best so far", value: (row) => row.best, text: (row) => figure(row.best) },
        { title: "episodes", value: (row) => row.episodes, text: (row) => count(row.episodes) },
      ],
      { key: (row) => `${row.time} ${row.steps}`, sort: 1, descending: true },
    );
    this.empty = element("p", "empty", "No evaluation has ended.");
    this.films = new Sheet(
      [
        { title: "video", value: (row) => row.name, words: true },
        { title: "when", value: (row) => row.time, text: (row) => clock(row.time) },
        { title: "policy", value: (row) => row.checkpoint, text: (row) => row.checkpoint ?? UNKNOWN, words: true },
        { title: "version", value: (row) => row.version, text: (row) => row.version ?? UNKNOWN },
        { title: "env steps", value: (row) => row.steps, text: (row) => count(row.steps) },
        { title: "mean return", value: (row) => row.mean, text: (row) => figure(row.mean) },
        { title: "episodes", value: (row) => row.episodes, text: (row) => count(row.episodes) },
        { title: "size", value: (row) => row.bytes, text: (row) => size(row.bytes) },
      ],
      { key: (row) => row.name, sort: 1, descending: true, pick: (name) => this.play(name) },
    );
    this.screen = element("section", "panel");
    this.screen.hidden = true;
    this.advice = element("p", "empty", "No video is in the folder of this run. To film one: learner evaluate RUN --video RUN/NAME.mp4");
    const videos = element("section", "", null, element("h2", "", "Videos of evaluations: choose one to play it"), this.screen, this.films.root, this.advice);
    root.replaceChildren(element("div", "tools"), this.sheet.root, this.empty, videos);
    this.newest = null;
    this.sheet.root.hidden = true;
    this.films.root.hidden = true;
  }

  // Shows a video, of this server; the same one again ends it.
  play(name) {
    this.screen.replaceChildren();
    this.playing = name === this.playing ? null : name;
    this.screen.hidden = this.playing == null;
    for (const [film, line] of this.films.rows) line.classList.toggle("picked", film === this.playing);
    if (this.playing == null) return;
    const video = element("video");
    video.controls = video.autoplay = video.muted = video.playsInline = true;
    video.src = `/api/runs/${this.run}/videos/${name.split("/").map(encodeURIComponent).join("/")}`;
    this.screen.append(element("h3", "", name), video);
  }

  async show({ status, run }) {
    const newest = JSON.stringify(status ? status.evaluation : [run.last, run.best]);
    const lately = performance.now() - this.asked < LOOK_MS; // a video is no news of a status
    if (newest === this.newest && lately) return;
    this.newest = newest;
    this.asked = performance.now();
    const { evaluations, videos } = await get(`/api/runs/${this.run}/evaluations`);
    this.films.root.hidden = !videos.length;
    this.advice.hidden = videos.length > 0;
    this.films.show(videos);
    this.sheet.root.hidden = !evaluations.length;
    this.empty.hidden = evaluations.length > 0;
    this.sheet.show(evaluations);
  }
}

export class Games {
  constructor(root, run) {
    this.run = run;
    this.live = element("div");
    this.kept = element("div");
    root.replaceChildren(this.live, this.kept);
    this.read();
  }

  show({ status }) {
    const games = status?.games;
    if (!games?.played) return;
    const rating = games.elo == null ? "" : `, rating ${figure(games.elo)} ± ${figure(1.96 * (games.elo_error ?? 0))}`;
    const sum = `${count(games.played)} games: ${count(games.wins)} won, ${count(games.draws)} drawn, ${count(games.losses)} lost${rating}`;
    this.sheet ??= new Sheet(
      [
        { title: "opponent", value: (row) => row.opponent, words: true },
        { title: "wins", value: (row) => row.wins, text: (row) => count(row.wins) },
        { title: "draws", value: (row) => row.draws, text: (row) => count(row.draws) },
        { title: "losses", value: (row) => row.losses, text: (row) => count(row.losses) },
      ],
      { key: (row) => row.opponent, sort: 1, descending: true },
    );
    this.sheet.show(games.opponents);
    this.sum ??= element("p");
    say(this.sum, sum);
    if (!this.live.childElementCount) this.live.append(element("h2", "", "Games"), this.sum, this.sheet.root);
  }

  async read() {
    const { kept, standings } = await get(`/api/runs/${this.run}/policies`);
    const found = [element("h2", "", "Policies")];
    if (!kept) found.push(element("p", "empty", "Policies are listed of runs whose folder is read here."));
    else if (kept.problem) found.push(element("p", "bad", kept.problem));
    else
      found.push(
        facts({
          "best evaluation": kept.best ? "kept" : "none yet",
          "checkpoints, the newest last": kept.checkpoints.join(", ") || "none yet",
          "archived versions": kept.archived.join(", ") || "none",
        }),
      );
    if (standings) {
      const ratings = new Sheet(
        [
          { title: "player", value: (row) => row.player, words: true },
          { title: "rating", value: (row) => row.elo, text: (row) => figure(row.elo) },
          { title: "± 95 %", value: (row) => row.error, text: (row) => figure(1.96 * row.error) },
          { title: "games", value: (row) => row.games, text: (row) => count(row.games) },
        ],
        { key: (row) => row.player, sort: 1, descending: true },
      );
      ratings.show(standings.ratings);
      found.push(element("h2", "", "Standings, as the newest checkpoint has them"), ratings.root);
    }
    this.kept.replaceChildren(...found);
  }
}

export class Configuration {
  constructor(root, run) {
    this.run = run;
    this.sheet = new Sheet(
      [
        { title: "setting", value: (row) => row.key, words: true },
        { title: "value", value: (row) => shown(row.value), words: true },
        { title: "origin", value: (row) => row.origin, words: true },
      ],
      { key: (row) => row.key, sort: 2, descending: true },
    );
    this.empty = element("p", "empty");
    root.replaceChildren(element("div", "tools"), this.sheet.root, this.empty);
    this.read();
  }

  show() {}

  async read() {
    const { settings } = await get(`/api/runs/${this.run}/settings`);
    this.sheet.root.hidden = !settings.length;
    this.empty.textContent = settings.length ? "" : "Settings are in the folder of a run: start the dashboard with that folder, too.";
    this.sheet.show(settings);
  }
}

function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function facts(entries) {
  return element("dl", "", null, ...Object.entries(entries).flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]));
}
