// Gymnasium's CartPole-v1: a pole on a cart that is pushed left or right.

const GRAVITY = 9.8;
const POLE_MASS = 0.1;
const TOTAL_MASS = 1.0 + POLE_MASS;
const HALF_LENGTH = 0.5;
const FORCE = 10.0;
const STEP_S = 0.02;
const FARTHEST = 2.4;
const STEEPEST = (12 * 2 * Math.PI) / 360;
export const LONGEST = 500; // steps of an episode

/** One environment. `random` returns numbers from 0 up to 1. */
export class CartPole {
  constructor(random) {
    this.random = random;
    this.reset();
  }

  /** Begin an episode. */
  reset() {
    this.begin([0, 0, 0, 0].map(() => this.random() * 0.1 - 0.05));
  }

  /** Begin an episode at a place: position, velocity, angle and its velocity. */
  begin(state) {
    this.state = state; // [4] double
    this.steps = 0;
    this.return = 0;
  }

  /** Push left (0) or right (1); return the reward, and if and how the episode ended. */
  step(action) {
    this.state = pushed(this.state, action === 1 ? FORCE : -FORCE);
    this.steps += 1;
    this.return += 1;
    const [position, , angle] = this.state;
    const terminated = Math.abs(position) > FARTHEST || Math.abs(angle) > STEEPEST;
    return { reward: 1, terminated, truncated: !terminated && this.steps >= LONGEST };
  }
}

/** Return the state one step later. */
function pushed([position, velocity, angle, turning], force) {
  const [sine, cosine] = [Math.sin(angle), Math.cos(angle)];
  const pushes = (force + POLE_MASS * HALF_LENGTH * turning ** 2 * sine) / TOTAL_MASS;
  const turns = (GRAVITY * sine - cosine * pushes) /
    (HALF_LENGTH * (4 / 3 - (POLE_MASS * cosine ** 2) / TOTAL_MASS));
  const moves = pushes - (POLE_MASS * HALF_LENGTH * turns * cosine) / TOTAL_MASS;
  return [
    position + STEP_S * velocity,
    velocity + STEP_S * moves,
    angle + STEP_S * turning,
    turning + STEP_S * turns,
  ];
}
