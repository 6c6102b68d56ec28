// The brokers between learners and their clients, and the upstreams of each.

import { Sheet } from "./tables.js";
import { count, duration, element, figure, rate, size } from "./text.js";

const number = (title, name, text = count) => ({ title, value: (row) => row[name], text: (row) => text(row[name]) });
const state = (row) => (row.heard ? "heard" : `silent for ${duration(row.silent_s)}`);

const COLUMNS = [
  { title: "broker", value: (row) => row.broker, words: true },
  { title: "state", value: state, words: true, style: (row) => (row.heard ? "" : "silent-word") },
  number("actors", "actors"),
  number("messages/s in", "received_per_second", rate),
  { title: "bytes/s passed on", value: (row) => row.passed_bytes_per_second, text: (row) => size(row.passed_bytes_per_second) },
  number("messages/s on feed", "feed_messages_per_second", rate),
  number("topics", "subscriptions"),
  number("queued", "queued"),
  { title: "queued bytes", value: (row) => row.queued_bytes, text: (row) => size(row.queued_bytes) },
  number("refused", "refused_in_all"),
  number("dropped", "dropped"),
  { title: "memory", value: (row) => row.memory, text: (row) => size(row.memory) },
  { title: "up", value: (row) => row.seconds, text: (row) => duration(row.seconds) },
];
const UPSTREAMS = [
  { title: "broker", value: (row) => row.broker, words: true },
  { title: "upstream", value: (row) => row.address, words: true },
  { title: "policies", value: (row) => row.policies.join(", "), words: true },
  { title: "last heard", value: (row) => row.silence_s, text: (row) => `${figure(row.silence_s)} s ago` },
  number("sockets made", "builds"),
  number("passed", "passed"),
  { title: "bytes passed", value: (row) => row.passed_bytes, text: (row) => size(row.passed_bytes) },
  number("queued", "queued"),
  { title: "queued bytes", value: (row) => row.queued_bytes, text: (row) => size(row.queued_bytes) },
];

export class Brokers {
  constructor(root, brokers) {
    this.empty = element("p", "empty", "No broker is heard. One stands between here and a learner if the dashboard was started with its address.");
    this.sheet = new Sheet(COLUMNS, { key: (row) => row.id, sort: 0 });
    this.above = new Sheet(UPSTREAMS, { key: (row) => row.key, sort: 0 });
    this.head = element("h2", "", "Their upstreams");
    this.reasons = element("dl");
    root.replaceChildren(element("div", "tools"), this.sheet.root, this.empty, this.reasons, this.head, this.above.root);
    this.list(brokers);
  }

  show() {}

  list(brokers) {
    const some = brokers.length > 0;
    for (const node of [this.sheet.root, this.head, this.above.root]) node.hidden = !some;
    this.empty.hidden = some;
    this.sheet.show(brokers);
    const upstreams = brokers.flatMap((broker) => broker.upstreams.map((each, place) => ({ ...each, broker: broker.broker, key: `${broker.id} ${place}` })));
    this.above.show(upstreams);
    const reasons = brokers.flatMap((broker) => [
      ...reasonsOf(`${broker.broker} refused`, broker.refused),
      ...broker.upstreams.flatMap((each) => reasonsOf(`${broker.broker} dropped for ${each.address}`, each.dropped)),
    ]);
    const words = JSON.stringify(reasons);
    if (words === this.words) return;
    this.words = words;
    this.reasons.replaceChildren(...reasons.flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]));
  }
}

function reasonsOf(name, numbers) {
  const found = Object.entries(numbers).filter(([, many]) => many > 0);
  return found.length ? [[name, found.map(([reason, many]) => `${reason} ${count(many)}`).join(", ")]] : [];
}
