// The JSON API of this server, and its stream of events.

export async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (answer.status === 401) {
    location.assign("/login");
    return new Promise(() => {}); // the page is leaving
  }
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

// Sends a command; returns the sentence about what became of it.
export async function send(path, order) {
  try {
    const { token } = await get("/api/token");
    const headers = { "Content-Type": "application/json", "X-Farflung-Token": token };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(order) });
    const { said, error } = await answer.json();
    return said ?? error;
  } catch {
    return "the dashboard does not answer";
  }
}

// Calls `heard(name, document)` for each event, and `lost()` while the server does not answer.
export function stream(run, heard, lost) {
  const source = new EventSource(`/api/stream?run=${encodeURIComponent(run)}`);
  for (const name of ["pulse", "run"])
    source.addEventListener(name, (event) => heard(name, JSON.parse(event.data)));
  source.onerror = () => {
    lost();
    if (source.readyState === EventSource.CLOSED) get("/api/places").catch(() => {});
  };
  return source;
}

// The curves of one run, of which later calls fetch only what is new.
export class Table {
  constructor(run) {
    this.run = run;
    this.clear();
  }

  clear() {
    this.identity = "";
    this.generation = 0;
    this.rows = 0;
    this.time = [];
    this.steps = [];
    this.curves = {};
  }

  async follow() {
    const path = `/api/runs/${this.run}/curves?after=`;
    const from = Math.max(0, this.rows - 1); // the last row may have grown
    let news = await get(path + from);
    if (news.table !== this.identity || news.generation !== this.generation || news.after !== from) {
      if (news.after !== 0) news = await get(`${path}0`);
      this.clear();
    }
    this.identity = news.table;
    this.generation = news.generation;
    this.rows = news.rows;
    for (const key of ["time", "steps"]) splice(this[key], news.after, news[key]);
    for (const [name, curve] of Object.entries(news.curves)) {
      const known = (this.curves[name] ??= { mean: [], low: [], high: [] });
      for (const word of ["mean", "low", "high"]) splice(known[word], news.after, curve[word]);
    }
  }

  // The values of one curve, as long as the table; null where it has none.
  values(name, word = "mean") {
    return this.curves[name]?.[word] ?? new Array(this.rows).fill(null);
  }

  has(name) {
    return name in this.curves;
  }
}

function splice(values, from, news) {
  while (values.length < from) values.push(null); // a curve that began later than others
  values.length = from;
  for (const value of news) values.push(value);
}
