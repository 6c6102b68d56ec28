// The page: which run and which section are shown, and what is new about them.

import { Actors } from "./actors.js";
import { get, stream, Table } from "./api.js";
import { Brokers } from "./brokers.js";
import { Compare } from "./compare.js";
import { Overview } from "./overview.js";
import { Configuration, Evaluations, Games, Problems } from "./sections.js";
import { duration, element, say } from "./text.js";

const TABS = {
  overview: "Overview",
  actors: "Actors",
  problems: "Problems",
  brokers: "Brokers",
  evaluations: "Evaluations",
  policies: "Policies",
  configuration: "Configuration",
  compare: "Compare runs",
};
const settings = { by: "steps", chosen: new Set(), curve: "rollout/ep_rew_mean" };

const page = Object.fromEntries(["runs", "state", "notice", "tabs", "main", "places"].map((id) => [id, document.getElementById(id)]));
let runs = new Map(); // by id: rows of the list
let revision = null;
let shown = { run: "", tab: "overview" };
let section = null; // what fills the page
let source = null; // the stream
let table = null;
let detail = null;
let following = false;
let lost = false;
let brokers = [];

function wanted() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const tab = asked.get("tab");
  return { run: asked.get("run") ?? "", tab: tab in TABS ? tab : "overview" };
}

function address(run, tab) {
  return `#${new URLSearchParams({ run, tab })}`;
}

async function listRuns() {
  const found = await get("/api/runs");
  revision = found.revision;
  runs = new Map(found.runs.map((run) => [run.id, run]));
  listed();
}

function listed() {
  const options = [...runs.values()].map((run) => [run.id, `${run.name} (${run.state})`]);
  const known = [...page.runs.options].map((option) => [option.value, option.textContent]);
  if (JSON.stringify(options) !== JSON.stringify(known)) {
    page.runs.replaceChildren(
      ...options.map(([id, words]) => {
        const option = element("option", "", words);
        option.value = id;
        return option;
      }),
    );
    page.runs.value = shown.run;
  }
  if (section instanceof Compare) section.list([...runs.values()]);
  if (!runs.has(shown.run)) choose();
}

// Shows what the address asks for, or the first run there is.
function choose() {
  const next = wanted();
  if (!runs.has(next.run)) next.run = runs.keys().next().value ?? "";
  const anotherRun = next.run !== shown.run || !source;
  const another = anotherRun || next.tab !== shown.tab || !section;
  shown = next;
  page.runs.value = shown.run;
  if (anotherRun) {
    table = shown.run ? new Table(shown.run) : null;
    detail = null;
    source?.close();
    source = stream(shown.run, heard, () => {
      lost = true;
      notify();
    });
  }
  if (another) open();
}

function open() {
  section?.end?.();
  page.tabs.replaceChildren(
    ...Object.entries(TABS).map(([tab, title]) => {
      const link = element("a", "", title);
      link.href = address(shown.run, tab);
      if (tab === shown.tab) link.setAttribute("aria-current", "page");
      return link;
    }),
  );
  page.tabs.querySelector("[aria-current]")?.scrollIntoView({ inline: "nearest", block: "nearest" });
  section = null;
  if (!shown.run) {
    page.main.replaceChildren(element("p", "empty", "No run is known yet. This page shows the first one that is heard or found."));
    return;
  }
  const made = {
    overview: () => new Overview(page.main, settings),
    actors: () => new Actors(page.main),
    problems: () => new Problems(page.main),
    brokers: () => new Brokers(page.main, brokers),
    evaluations: () => new Evaluations(page.main, shown.run),
    policies: () => new Games(page.main, shown.run),
    configuration: () => new Configuration(page.main, shown.run),
    compare: () => new Compare(page.main, settings, [...runs.values()]),
  };
  section = made[shown.tab]();
  if (detail) refresh();
}

function heard(name, news) {
  lost = false;
  if (name === "pulse") {
    pulse(news);
  } else if (news.run.id === shown.run) {
    detail = news;
    refresh();
  }
  notify();
}

function pulse(news) {
  showPlaces(news.places);
  brokers = news.brokers;
  if (section instanceof Brokers) section.list(brokers);
  if (news.revision !== revision) {
    listRuns();
    return;
  }
  for (const run of news.live) runs.set(run.id, run);
  listed();
}

function refresh() {
  section?.show(detail);
  document.title = `${detail.run.name} · Farflung`;
  follow();
}

// Fetches what is new of the curves; one request at a time.
async function follow() {
  if (following || !(section instanceof Overview)) return;
  following = true;
  const [asked, drawn] = [table, section];
  try {
    await asked.follow();
    if (asked === table && drawn === section) section.curves(table);
  } catch {
    lost = true; // the stream says when the server is back
  } finally {
    following = false;
  }
}

function notify() {
  const run = runs.get(shown.run);
  const silent = detail?.silent_s;
  const ended = detail && ["finished", "stopped", "failed", "damaged"].includes(detail.run.state);
  let words = "";
  if (lost) words = "The dashboard does not answer; this page goes on when it is back.";
  else if (silent > 4 && !ended) words = `The learner at ${detail.address} has not been heard for ${duration(silent)}. This page goes on when it is back.`;
  page.notice.hidden = !words;
  say(page.notice, words);
  const state = lost ? "not connected" : (detail?.run.state ?? run?.state ?? "");
  say(page.state, state);
  page.state.hidden = !state;
  page.state.className = `pill ${lost ? "silent" : (state.match(/^[a-z]+/)?.[0] ?? "")}`;
  const problems = detail?.status?.problems.length ?? 0;
  const link = [...page.tabs.children].find((each) => each.textContent.startsWith(TABS.problems));
  if (link) say(link, problems ? `${TABS.problems} (${problems})` : TABS.problems);
}

function showPlaces(places) {
  const lines = places.map((place) => {
    const how = place.problem || (place.kind === "folder" ? "read" : place.ready ? "heard" : "nothing heard yet");
    return `${place.kind} ${place.place}: ${how}`;
  });
  if (lines.join("\n") !== page.places.dataset.shown) {
    page.places.dataset.shown = lines.join("\n");
    page.places.replaceChildren(...lines.map((words) => element("p", "", words)));
  }
}

page.runs.addEventListener("change", () => location.assign(address(page.runs.value, shown.tab)));
window.addEventListener("hashchange", choose);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => section?.redraw?.());
listRuns().catch(() => {
  lost = true;
  notify();
  setTimeout(() => location.reload(), 3000);
});
