"""Write the JSON schemas of the status document and of a line of metrics.jsonl, from the code."""

import json
from pathlib import Path
from typing import Any

import msgspec

from farflung.learner.observe.status import Status

HERE = Path(__file__).parent
STATUS, METRICS = HERE / "status.schema.json", HERE / "metrics.schema.json"
DRAFT = "https://json-schema.org/draft/2020-12/schema"

FIELDS = {
    "Status": {
        "run": "identity of the run: its name and a random number",
        "policy": "name of the policy that this learner trains",
        "mode": "async, sync or sequential",
        "state": "restoring, run, pause, away or stop",
        "environment": "registered id",
        "algorithm": "name of the algorithm",
        "device": "device of the network, such as cpu or cuda:0",
        "folder": "folder of the run on the learner's machine",
        "join": "the line to paste on another machine: actor HOST:PORT",
        "seconds": "seconds since this process began",
        "idle_seconds": "seconds since steps or updates last grew",
        "steps": "environment steps of the run that training took",
        "steps_target": "steps at which the run ends; null: it has no such end",
        "until": "the goal as it was written",
        "goal_seconds": "seconds to the goal, at present rates and trends; null: not in sight",
        "updates": "gradient steps of the run",
        "skipped": "updates without a step: loss or gradients were not finite",
        "epoch": "starts of the learner in this run",
        "version": "number of the newest publication in this epoch",
        "episodes": "episodes that ended, without those of evaluations",
        "return_mean": "mean return of the last 100 episodes",
        "return_spread": "standard deviation of these returns",
        "return_history": "at most 40 mean returns, over the whole run",
        "length_mean": "mean steps of the last 100 episodes",
        "evaluation": "the newest evaluation; null: none has ended yet",
        "evaluation_history": "at most 40 means of evaluations, since this process began",
        "metrics": "of the algorithm and of exploration, each the mean of its latest updates",
        "figures": "metrics of one's own, by the names of their curves",
        "steps_per_second": "environment steps a second",
        "updates_per_second": "gradient steps a second",
        "ratio_wanted": "samples for each row, as --replay-ratio says; null: there is none",
        "ratio_held": "samples for each row, since the warm-up",
        "weight": "times of --replay-ratio, as it was set while training",
        "steered": "settings that were changed while training, by the names of their flags",
        "waiting": "the side that waited most during the last seconds",
        "verdict": "the part that holds the run up, by the last seconds, and the remedy",
        "training_time": "share of the last seconds of the training thread, by part",
        "actors_time": "mean share of the last seconds of the actors that collect, by part",
        "disk_busy": "share of the last seconds in which the journal wrote or synced",
        "network_busy": "share of the last seconds in which the network thread worked",
        "lag_p50": "versions between the one that collected a row and the newest: median",
        "lag_p95": "versions so, of one row in twenty",
        "replay_size": "rows in the replay",
        "replay_capacity": "rows that the replay can hold",
        "update_split": "seconds of an update, by part",
        "cpu": "percent of one processor, of this process",
        "machine_cpu": "percent of all processors, of all processes",
        "memory": "bytes, of this process",
        "machine_memory": "percent of the machine's memory, of all processes",
        "memory_parts": "bytes of this process by part: replay, network, versions, parcels, ...",
        "bytes_in": "bytes of messages that came from actors",
        "bytes_out": "bytes of messages on the feed, however many receive them",
        "bytes_in_per_second": "bytes a second from actors",
        "bytes_out_per_second": "bytes a second on the feed",
        "checkpoint_pause_s": "seconds that the last checkpoint stopped training for",
        "received": "parcels: accepted, duplicates and refused",
        "duplicates": "parcels that came again, and count once",
        "lost": "numbers that actors gave up and that never arrived, by their own word",
        "refused": "parcels that were not taken, by reason",
        "gradients": "the books of workers' gradients, since this process began",
        "commands": "the books of commands over the network, since this process began",
        "games": "games against a pool of opponents",
        "archived": "archived versions",
        "actors": "the actors, those with parcels first",
        "more_actors": "actors without a row of their own",
        "problems": "the latest problems, newest last",
        "problem_texts": "the whole texts of those that have more than one line",
    },
    "ProblemStatus": {
        "problem": "the problem, as it is among the problems",
        "lines": "lines of its text, such as a traceback: the last 40",
    },
    "EvaluationStatus": {
        "mean": "mean return",
        "episodes": "episodes of this evaluation",
        "version": "number of the weights that were evaluated",
        "best": "best mean return of an evaluation of this run",
        "length_mean": "mean steps of its episodes",
        "cut": "episodes that reached the cap of steps",
    },
    "FigureStatus": {
        "mean": "mean of the values; null: there are none",
        "spread": "standard deviation of the values",
        "count": "values that mean and spread are taken over",
    },
    "WaitingStatus": {
        "cause": "what is waited for; a newer learner may know more causes",
        "number": "rows or updates that are missing now",
        "share": "share of the last seconds that was waited, 0 to 1",
    },
    "Verdict": {
        "bound": (
            "learner-bound, actor-bound, network-bound, disk-bound, hangs (an environment), "
            "balanced or unknown; a newer learner may know more"
        ),
        "share": "share of its time that the side waits which waits for that part, 0 to 1",
        "sentence": "the verdict for people, with the remedy; empty: unknown",
    },
    "CommandStatus": {
        "received": "messages with a command: done + waiting + repeated + refused",
        "done": "executed",
        "waiting": "for their execution",
        "repeated": "came again, and counted once",
        "refused": "refused, by reason",
    },
    "GradientStatus": {
        "received": "messages: applied, waiting, repeated and refused",
        "applied": "messages that an update used",
        "waiting": "messages that wait for their step",
        "repeated": "messages that came again, and count once",
        "refused": "messages that were not taken, by reason",
    },
    "GamesStatus": {
        "played": "games that ended: wins, draws and losses",
        "wins": "games that the live policy won",
        "draws": "games without a winner",
        "losses": "games that the live policy lost",
        "score": "points a game since the archived version before the newest; a draw is 0.5",
        "elo": "rating of the live policy; random actions have 0, if they were played",
        "elo_error": "standard deviation of that rating",
        "opponents": "at most 32, those with the most games",
    },
    "OpponentStatus": {
        "opponent": "name of the opponent: random, a script, or an archived version",
        "wins": "games that the live policy won",
        "draws": "games without a winner",
        "losses": "games that the live policy lost",
    },
    "ActorStatus": {
        "name": "name, with its label and a slash where there are keys",
        "state": "joining, running, learning, waiting, evaluating, silent or left, or a newer one",
        "seats": "environments, or agents in them",
        "steps_per_second": "environment steps a second",
        "episodes": "episodes that ended since it began",
        "version": "number of the weights that it holds",
        "acknowledged": "parcels that the learner has acknowledged",
        "waiting": "parcels that it holds: unsent or not acknowledged",
        "seen_ago": "seconds since its last message",
        "proven": "a parcel of it was taken, in this epoch or an earlier one",
        "real_time": "the clock of an actor at a fixed rate; null: it has none",
        "lost_steps": "steps that it took and did not record",
        "time": "share of its last seconds, by part; empty where it measures none",
        "hangs_s": "seconds of the present step of its environments; 0: it is no suspect",
        "memory": "bytes of its process, and of the parts of it that it can tell",
    },
    "RealTimeStatus": {
        "rate_hz": "steps a second that it keeps to",
        "steps": "steps since it began",
        "missed": "steps that ran over their period",
        "skipped": "periods without a step",
        "late_p50_s": "seconds from when a step was due until it began: median",
        "late_p99_s": "seconds so, of one step in a hundred",
        "late_worst_s": "seconds so, of the step that was most late",
        "weights_age_s": "seconds since the weights in use came",
        "dropped": "parcels for which there was no room",
        "alone": "steps without a learner",
        "stopped": "periods without a step, for lack of a learner",
    },
}

CURVES = {  # names in metrics.jsonl
    "rollout/ep_rew_mean": "mean return of the last 100 episodes",
    "rollout/ep_rew_std": "standard deviation of these returns",
    "rollout/ep_len_mean": "mean steps of the last 100 episodes",
    "time/total_timesteps": "environment steps of the run that training took",
    "time/episodes": "episodes that ended, without those of evaluations",
    "time/fps": "environment steps a second",
    "time/time_elapsed": "seconds since this process began",
    "time/checkpoint_pause": "seconds that the last checkpoint stopped training for",
    "eval/mean_reward": "mean return of an evaluation; once, when it has ended",
    "eval/mean_ep_length": "mean steps of its episodes",
    "eval/best_mean_reward": "best mean return of an evaluation so far",
    "train/n_updates": "gradient steps of the run",
    "train/skipped_updates": "of these, without a step: loss or gradients were not finite",
    "train/updates_per_second": "gradient steps a second",
    "train/version": "number of the newest publication in this epoch",
    "pacing/replay_ratio": "samples for each row, since the warm-up",
    "pacing/policy_lag_p50": "versions between the one that collected a row and the newest: median",
    "pacing/policy_lag_p95": "so, of one row in twenty",
    "replay/size": "rows in the replay",
    "actors/present": "actors that take part",
    "parcels/received": "parcels: accepted, duplicates and refused",
    "parcels/duplicates": "parcels that came again, and count once",
    "parcels/refused": "parcels that were not taken",
    "parcels/lost": "numbers that actors gave up and that never arrived, by their own word",
    "gradients/received": "messages of workers; only with workers, as the three below",
    "gradients/applied": "messages that an update used",
    "gradients/repeated": "messages that came again, and count once",
    "gradients/refused": "messages that were not taken",
    "games/played": "games that ended; only with a pool of opponents, as the six below",
    "games/wins": "games that the live policy won",
    "games/draws": "games without a winner",
    "games/losses": "games that the live policy lost",
    "games/score": "points a game, 0 to 1, since the archived version before the newest",
    "games/elo": "rating of the live policy; random actions have 0",
    "games/elo_error": "standard deviation of that rating",
    "archive/versions": "archived versions; only with an archive",
}
NUMBER = {"type": ["number", "null"]}


def main() -> None:
    """Write both files."""
    for path, made in ((STATUS, status()), (METRICS, metrics())):
        path.write_text(text(made))


def text(schema: dict[str, Any]) -> str:
    """Return a schema as the content of its file."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def status() -> dict[str, Any]:
    """Return the schema of a status: of `learner status --json`, and of telemetry."""
    found = msgspec.json.schema(Status)
    for name, part in found["$defs"].items():
        words = part["description"].replace("None", "null")
        part["description"] = " ".join(words.split())
        for field, described in part["properties"].items():
            if "$ref" in described:
                described = {"allOf": [{"$ref": described.pop("$ref")}], **described}
            part["properties"][field] = {"description": FIELDS[name][field], **described}
    return {"$schema": DRAFT, "title": "The status of a learner", **found}


def metrics() -> dict[str, Any]:
    """Return the schema of a line of metrics.jsonl."""
    return {
        "$schema": DRAFT,
        "title": "A line of metrics.jsonl",
        "description": (
            "The figures of a moment, every two seconds and when an evaluation ends. A figure that "
            "is not known yet is missing, and one that is not finite is null. Further names are "
            "those of algorithms, environments and callbacks."
        ),
        "type": "object",
        "properties": {
            "wall_time": {"type": "number", "description": "seconds since 1970, UTC"},
            "epoch": {"type": "integer", "minimum": 0, "description": FIELDS["Status"]["epoch"]},
            **{name: {"description": said, **NUMBER} for name, said in CURVES.items()},
        },
        "required": ["wall_time", "epoch"],
        "additionalProperties": NUMBER,
    }


if __name__ == "__main__":
    main()
