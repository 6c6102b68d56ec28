// The buttons that steer a run, where this dashboard may.

import { send } from "./api.js";
import { element, say } from "./text.js";

const PAUSED = { pause: "run", resume: "pause" }; // a button, and the state in which it is of use
const SURE_MS = 5000; // for the second click on a button that ends the run

export class Steering {
  constructor() {
    this.said = element("p", "quiet");
    this.said.setAttribute("role", "status");
    this.buttons = Object.fromEntries(["pause", "resume", "checkpoint", "evaluate", "stop"].map((name) => [name, this.button(name)]));
    this.key = element("select");
    this.key.setAttribute("aria-label", "setting");
    this.value = element("input");
    this.value.setAttribute("aria-label", "value");
    this.value.placeholder = "value";
    this.value.required = true;
    this.set = element("button", "", "set");
    const form = element("form", "", null, this.key, this.value, this.set);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask("set", [`${this.key.value}=${this.value.value.trim()}`]);
    });
    this.root = element("section", "steering", null, ...Object.values(this.buttons), form, this.said);
    this.root.hidden = true;
  }

  button(name) {
    const made = element("button", "", name);
    made.type = "button";
    made.addEventListener("click", () => {
      if (name !== "stop" || made.classList.contains("sure")) return this.ask(name);
      made.classList.add("sure");
      say(made, "stop: sure?");
      setTimeout(() => this.calm(), SURE_MS);
    });
    return made;
  }

  calm() {
    this.buttons.stop.classList.remove("sure");
    say(this.buttons.stop, "stop");
  }

  show({ run, status, steering }) {
    this.run = run.id;
    this.root.hidden = !steering.allowed || !run.heard;
    if (this.root.hidden) return;
    for (const [name, state] of Object.entries(PAUSED)) this.buttons[name].hidden = status.state !== state;
    if (this.key.options.length !== steering.settings.length)
      this.key.replaceChildren(...steering.settings.map((key) => element("option", "", key)));
  }

  async ask(name, words = []) {
    this.calm();
    const all = [...Object.values(this.buttons), this.set];
    for (const button of all) button.disabled = true;
    say(this.said, `${[name, ...words].join(" ")}: asked`);
    const answer = await send(`/api/runs/${this.run}/commands`, { name, words });
    say(this.said, `${[name, ...words].join(" ")}: ${answer}`);
    for (const button of all) button.disabled = false;
  }
}
