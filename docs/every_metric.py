"""Write docs/every_metric.md: each curve with its unit, and what to do when it is bad."""

from collections.abc import Iterator
from pathlib import Path

from reference import item
from schemas import CURVES

PAGE = Path(__file__).parent / "every_metric.md"
UPDATES = "mean of the latest 100 updates"

HEAD = """\
# Every metric

All curves that a learner writes to `metrics.jsonl` and TensorBoard, each with its unit and what to
do when it is bad (`python docs/write.py` writes this page; a test compares it with the code).
[Metrics](metrics.md) says how they are made, how to add your own, and how to send them elsewhere.
Begin with the [screen](operations.md#the-screen-and-the-log): it names the side that waits, and
[tuning](tuning.md) what to change then.
"""
DASHBOARD = """\
The [dashboard](dashboard.md) draws these too, while it hears the learner: they are in the status,
not in `metrics.jsonl`.
"""

Metric = tuple[str, str]  # its unit, and what to do when it is bad

SECTIONS: dict[str, dict[str, Metric]] = {
    "Results": {
        "rollout/ep_rew_mean": (
            "reward",
            "Flat: first look at `eval/mean_reward`, which has no exploration. If that is flat too,"
            " see [no progress](tuning.md#it-does-not-learn).",
        ),
        "rollout/ep_rew_std": (
            "reward",
            "As large as the mean: single episodes decide. Evaluate more (`--evaluate-episodes`).",
        ),
        "rollout/ep_len_mean": (
            "steps",
            "At the limit of the environment although the task is not solved: it is stuck. Check "
            "that the environment ends episodes: `learner check ENV`.",
        ),
        "rollout/exploration_rate": (
            "share, 0 to 1",
            "Still high when the run ends: fewer `--exploration-steps`. At its end before returns "
            "rise: more of them.",
        ),
        "eval/mean_reward": (
            "reward",
            "Far below the training returns: episodes are cut (`--evaluate-max-steps`), or the "
            "greedy policy is stuck where exploration is not. Watch it: "
            "`learner evaluate RUN --render`.",
        ),
        "eval/mean_ep_length": (
            "steps",
            "At `--evaluate-max-steps`: the greedy policy ends no episode.",
        ),
        "eval/best_mean_reward": (
            "reward",
            "Far above the newest one: training has become unstable since. The best checkpoint is "
            "kept; lower the learning rate.",
        ),
    },
    "Speed": {
        "time/total_timesteps": ("steps", "Stands still: the screen says what is waited for."),
        "time/episodes": (
            "episodes",
            "Stays 0: episodes never end. Let a task without an end be truncated now and then.",
        ),
        "time/fps": (
            "steps/s",
            "Low: see [slow collection](tuning.md#collection-is-slow).",
        ),
        "time/time_elapsed": (
            "s",
            "After `--resume`: it begins at 0 again, and `epoch` counts starts.",
        ),
        "time/checkpoint_pause": (
            "s",
            "More than a second: checkpoints copy the weights and the replay's priorities. Write "
            "fewer: `--checkpoint-every`.",
        ),
        "train/n_updates": (
            "updates",
            "Stays 0: fewer than `--warmup` rows have come, or no actor has.",
        ),
        "train/updates_per_second": (
            "updates/s",
            "Low: see [slow updates](tuning.md#updates-are-slow).",
        ),
        "train/version": (
            "versions",
            "Rises much faster than actors can use: publish less often (`--publish-every`).",
        ),
    },
    "Balance of collecting and learning": {
        "pacing/replay_ratio": (
            "samples/row",
            "Far from `--replay-ratio` for long: one side cannot keep up. The screen says which.",
        ),
        "pacing/policy_lag_p50": (
            "versions",
            "Above 1 with PPO or 16 with others: fewer steps ahead (`--tolerance`), shorter windows"
            " (`--horizon`), or fewer versions (`--publish-every`). "
            "[Lag](algorithms.md#lag) has what it costs.",
        ),
        "pacing/policy_lag_p95": (
            "versions",
            "Far above the median: single actors are slow or behind a slow line. "
            "`learner status` has the version of each.",
        ),
        "replay/size": (
            "rows",
            "Stops below `--capacity` while steps go on: it keeps the newest rows that fit; the log"
            " says when memory is short.",
        ),
    },
    "Learning": {
        "train/skipped_updates": (
            "updates",
            "Above 0: lower the learning rate, or bound rewards (`--clip-rewards`). Ten in a row "
            "restore the last checkpoint ([guards](reliability.md#guards)).",
        ),
        "train/loss": (
            "",
            "Rises without end: lower the learning rate. Of values it rises with returns, which is "
            "no harm.",
        ),
        "train/gradient_norm": (
            "",
            "Far above the norm at which gradients are clipped, all the time: lower the learning "
            "rate, or normalise (`--normalise-observations`, `--normalise-rewards`).",
        ),
        "train/learning_rate": ("", "Not what you set: a setting of the algorithm anneals it."),
        "train/value": (
            "discounted return",
            "Beyond any return that is possible: values diverge. Lower the learning rate or gamma; "
            "`--dqn.double` is on by default for this.",
        ),
        "train/policy_loss": (
            "",
            "Any value: it says little by itself. Watch returns and `train/entropy`.",
        ),
        "train/value_loss": (
            "squared return",
            "Large and steady: returns are large. Normalise them: `--normalise-rewards`.",
        ),
        "train/actor_loss": ("", "Moves without end: see `train/value`, which it follows."),
        "train/entropy": (
            "nats",
            "Near 0 early in a run: the policy has stopped to explore. Raise "
            "`--ppo.entropy-coefficient` or `--impala.entropy-coefficient`.",
        ),
        "train/temperature": (
            "reward/nat",
            "Grows without end: rewards are too large beside the entropy. Scale them.",
        ),
        "train/kl": (
            "nats",
            "Above 0.05 all the time: updates are too large. Lower the learning rate or "
            "`--ppo.epochs`, or set `--ppo.stop-at-kl`.",
        ),
        "train/stale": (
            "share, 0 to 1",
            "Above 0: rows come too late to be learned from. See the policy lag.",
        ),
    },
    "Messages": {
        "actors/present": ("actors", "Fewer than you started: their own logs say why."),
        "parcels/received": ("parcels", "Stands still: no actor sends. See `learner status`."),
        "parcels/duplicates": (
            "parcels",
            "Rises: messages are sent again, so a line is lossy or slow. Each still counts once.",
        ),
        "parcels/refused": (
            "parcels",
            "Above 0: the screen has the reason of each, "
            "[errors](errors.md#refused-parcels) what to do.",
        ),
        "parcels/lost": (
            "parcels",
            "Above 0: a promise is broken. Report it, with the logs of learner and actor.",
        ),
        "gradients/received": ("messages", "Missing or still: no worker sends."),
        "gradients/applied": ("messages", "Far below those received: most are refused, see below."),
        "gradients/repeated": ("messages", "Rises: as with parcels, a line is lossy or slow."),
        "gradients/refused": (
            "messages",
            "Rises: mostly `stale`. Raise `--publish-every` or `--max-staleness` "
            "([workers](workers.md#rules)).",
        ),
    },
    "Games and archive": {
        "games/played": (
            "games",
            "Missing: no pool is set, or the world reports no opponent and outcome.",
        ),
        "games/wins": ("games", "Few: see `games/score`, which is of the latest ones."),
        "games/draws": ("games", "Nearly all: both sides play safe. Ratings then say little."),
        "games/losses": ("games", "Many: easier opponents (`--pool random=1 archive=2`)."),
        "games/score": (
            "points/game, 0 to 1",
            "Near 1: the pool is too easy, near 0 too hard. `--pool-sampling even` prefers equals.",
        ),
        "games/elo": (
            "points",
            "Falls: the policy forgets. Keep older opponents: `--pool-newest 0`.",
        ),
        "games/elo_error": ("points", "Above 50: too few games to compare two ratings."),
        "archive/versions": ("versions", "At `--archive-most`: older ones are thinned out."),
    },
}

SAID = {  # what CURVES has no words for: metrics of exploration and of the built-in algorithms
    "rollout/exploration_rate": "share of random actions, without the ladder",
    "train/skipped_updates": "updates without a step: loss or gradients were not finite",
    "train/loss": f"loss of the algorithm, {UPDATES}",
    "train/gradient_norm": f"norm of the gradients before they are clipped, {UPDATES}",
    "train/learning_rate": "step size in use",
    "train/value": f"mean value of the batch: dqn, r2d2, sac, td3; {UPDATES}",
    "train/policy_loss": f"loss of the policy: ppo, impala; {UPDATES}",
    "train/value_loss": f"squared error of the values: ppo, impala; {UPDATES}",
    "train/actor_loss": f"loss of the policy: sac, td3; {UPDATES}",
    "train/entropy": f"entropy of the policy: ppo, impala, sac; {UPDATES}",
    "train/temperature": f"weight of the entropy in the loss: sac; {UPDATES}",
    "train/kl": f"distance from the policy that collected: ppo; {UPDATES}",
    "train/stale": f"share of rows that are too old and count 0: ppo, impala; {UPDATES}",
}

OF_STATUS: dict[str, Metric] = {
    "pacing/replay_ratio_wanted": ("samples/row", "as `--replay-ratio` and the weight say"),
    "pacing/waiting": ("share, 0 to 1", "how much of the last seconds one side waited"),
    "network/in": ("bytes/s", "messages from actors"),
    "network/out": ("bytes/s", "messages on the feed, to each subscriber"),
    "machine/cpu": ("percent of one processor", "use of the learner"),
    "machine/memory": ("bytes", "memory of the learner"),
    "split/PART": ("s", "a part of an update: the largest is what to make faster"),
}


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


def page() -> str:
    """Return the page."""
    parts = [HEAD, "\n".join(details())]
    for title, metrics in SECTIONS.items():
        parts += [f"## {title}", "\n".join(line(name, *metric) for name, metric in metrics.items())]
    lines = [item(f"`{name}` [{unit}]", said) for name, (unit, said) in OF_STATUS.items()]
    parts += ["## Of the status", DASHBOARD, "\n".join(lines)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def details() -> Iterator[str]:
    """Yield what is true of all."""
    yield item("`NAME_std` and `NAME_count`", "spread and number of values of a metric of your own")
    yield item("`wall_time` [s]", "time of a line, since 1970")
    yield item("`epoch` [starts]", "starts of the learner in this run")


def line(name: str, unit: str, cure: str) -> str:
    """Return a metric with its unit, its meaning and the cure."""
    meaning = SAID.get(name) or CURVES[name]
    return item(f"`{name}`" + (f" [{unit}]" if unit else ""), f"{meaning}. *{cure_mark(cure)}")


def cure_mark(cure: str) -> str:
    """Return the cure with its symptom in italics."""
    symptom, colon, rest = cure.partition(":")
    return f"{symptom}{colon}*{rest}" if colon else f"{cure}*"


if __name__ == "__main__":
    main()
