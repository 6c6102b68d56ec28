// The two sockets of an actor. They dial out, and are made again where the client asks for it.

import { Push, Subscriber } from "zeromq";
import { socketOptions } from "./keys.js";

const COMMON = {
  reconnectInterval: 100, reconnectMaxInterval: 1000, handshakeInterval: 10_000, // milliseconds
  tcpKeepalive: 1, tcpKeepaliveIdle: 60, linger: 0,
};
const GOODBYE_MS = 500; // to send the last messages
const QUEUE = 1024; // messages; credit bounds them further
const FEED_QUEUE = 64; // messages: losing one is harmless
const FEED_BYTES = 2 ** 30;

export class Connection {
  /** `clock` returns seconds. Errors of the client end `wait` and `exchange`. */
  constructor(client, { host, port, feedPort, keys }, clock) {
    Object.assign(this, { client, keys, clock });
    this.places = [`tcp://${host}:${port}`, `tcp://${host}:${feedPort}`];
    this.failure = null;
    this.wake = () => {};
    this.#build();
  }

  #build() {
    const options = { ...COMMON, ...socketOptions(this.keys) };
    this.push = new Push({ ...options, sendHighWaterMark: QUEUE, sendTimeout: 0 });
    this.feed = new Subscriber({
      ...options, receiveHighWaterMark: FEED_QUEUE, maxMessageSize: FEED_BYTES,
    });
    this.subscribed = this.client.subscriptions;
    for (const topic of this.subscribed) this.feed.subscribe(topic);
    this.push.connect(this.places[0]);
    this.feed.connect(this.places[1]);
    this.#listen(this.feed);
  }

  async #listen(feed) {
    try {
      for await (const [topic, frame] of feed) {
        this.client.receive(topic.toString("latin1"), frame, this.clock());
        this.wake();
      }
    } catch (error) {
      this.failure = error;
      this.wake();
    }
  }

  /** Wait for a message, at most so long. */
  async wait(milliseconds) {
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      this.wake = () => (clearTimeout(timer), resolve());
    });
    this.wake = () => {};
  }

  /** Do what the client wants now: new sockets, other topics, and all that should leave. */
  async exchange() {
    if (this.failure) throw this.failure;
    if (this.client.look(this.clock())) {
      this.push.close();
      this.feed.close();
      this.#build();
    }
    this.#subscribe();
    await this.#send();
  }

  #subscribe() {
    const wanted = this.client.subscriptions;
    for (const topic of wanted) if (!this.subscribed.includes(topic)) this.feed.subscribe(topic);
    for (const topic of this.subscribed) if (!wanted.includes(topic)) this.feed.unsubscribe(topic);
    this.subscribed = wanted;
  }

  async #send() {
    const { outbox, notices, learner } = this.client;
    while (notices.length && learner.listens(this.clock())) {
      if (!(await this.#left(notices[0]))) return;
      notices.shift();
    }
    for (;;) {
      const due = learner.listens(this.clock()) && this.client.joined && outbox.next(this.clock());
      if (!due || !(await this.#left(due.frame))) return;
      outbox.left(due.number, this.clock());
    }
  }

  async #left(frame) {
    try {
      await this.push.send(frame);
      return true;
    } catch (error) {
      if (error.code === "EAGAIN") return false; // the queue is full
      throw error;
    }
  }

  /** Wait for what is not acknowledged, say goodbye, and close both sockets. */
  async close(reason, patienceMs) {
    const { client } = this;
    const end = this.clock() + patienceMs / 1000;
    const owes = () => client.outbox.sent.size + client.outbox.waiting.length > 0;
    while (owes() && this.clock() < end && client.learner.listens(this.clock())) {
      await this.exchange();
      await this.wait(20);
    }
    client.report(this.clock());
    client.bye(reason);
    await this.#send();
    this.push.linger = GOODBYE_MS;
    this.push.close();
    this.feed.close();
  }
}
