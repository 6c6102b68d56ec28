"""Figures of ours against our own limits, from the benchmarks that measure them."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers.environments import reason

BENCH = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure in the JSON line of a benchmark."""

    work: str
    unit: str  # "ratio": of the limit
    script: str
    path: str  # to a median and its range, or to a number
    words: tuple[str, ...] = ()
    short: tuple[str, ...] = ("--quick",)
    falls: bool = False


IN_ONE = ("--in-one", "--latency-ms", "5", "--actors", "1,4,16", "--rounds", "3")
SHORT_IN_ONE = ("--in-one", "--latency-ms", "5", "--actors", "1,4", "--rounds", "1")
CARTPOLES = ("--env", "CartPole-v1", "--horizon", "32", "--replay-ratio", "0.01")
BATCHES = "batches of 256 stacks of 4 images, returns of three steps (the default)"
OWN: Mapping[str, Figure] = {
    "first_update": Figure(
        "from the command of a learner to its first update",
        "s",
        "startup",
        "learner.update_s",
        falls=True,
    ),
    "parcels_1_KiB": Figure("parcels of 1 KiB ÷ raw ZeroMQ", "ratio", "data_path", "1_KiB"),
    "parcels_64_cartpoles": Figure(
        "parcels of 64 CartPoles ÷ raw ZeroMQ", "ratio", "data_path", "64_cartpoles"
    ),
    "images_three_steps": Figure(BATCHES, "1/s", "replay", "images_three_steps.ours_per_second"),
    "actor_64": Figure(
        "an actor with 64 CartPoles ÷ a list of them", "ratio", "actor", "environments_64"
    ),
    "actor_16": Figure("with 16", "ratio", "actor", "environments_16"),
    "actor_1": Figure("with 1", "ratio", "actor", "environments_1"),
    "in_one_4": Figure(
        "an actor with 4 environments of 5 ms ÷ with one",
        "ratio",
        "scale",
        "storing.4",
        (*IN_ONE, "--steps", "250"),
        (*SHORT_IN_ONE, "--steps", "32"),
    ),
    "in_one_16": Figure(
        "with 16",
        "ratio",
        "scale",
        "storing.16",
        (*IN_ONE, "--steps", "250"),
        (*SHORT_IN_ONE, "--steps", "32"),
    ),
    "actors_64": Figure(
        "64 actors with one CartPole each ÷ 4 of them",
        "ratio",
        "scale",
        "storing.64",
        (*CARTPOLES, "--actors", "4,64", "--steps", "2000", "--rounds", "3"),
        (*CARTPOLES, "--actors", "1,2", "--steps", "64", "--rounds", "1"),
    ),
    "start_32": Figure(
        "from the start of 32 actors until all of them collect",
        "s",
        "scale",
        "start.32.seconds",
        (*CARTPOLES, "--actors", "1,32", "--steps", "500", "--rounds", "3"),
        (*CARTPOLES, "--actors", "1,2", "--steps", "64", "--rounds", "1"),
        falls=True,
    ),
    "beside_16": Figure(
        "updates while 16 actors bring 50,000 rows/s ÷ updates alone",
        "ratio",
        "beside",
        "16_actors",
    ),
    "beside_1": Figure("while one actor with 64 does", "ratio", "beside", "one_actor_64"),
    "weights_1": Figure(
        "weights of 1 MiB, from training until one actor could act on them",
        "ms",
        "feed",
        "1_MiB.actors.1.direct",
        falls=True,
    ),
    "weights_8": Figure(
        "until the last of 8 actors could", "ms", "feed", "1_MiB.actors.8.direct", falls=True
    ),
}


class Lines:
    """The JSON line of each benchmark, which runs once."""

    def __init__(self, short: bool) -> None:
        self._short = short
        self._lines: dict[tuple[str, ...], dict[str, Any]] = {}

    def figure(self, wanted: Figure) -> dict[str, Any]:
        """Return a figure as docs/results has it, or the reason for none."""
        said = {"work": wanted.work, "unit": wanted.unit, "falls": wanted.falls}
        words = wanted.short if self._short else wanted.words
        found: Any = self._line(wanted.script, words)
        command = " ".join(["python", f"bench/{wanted.script}.py", *words])
        try:
            for part in wanted.path.split("."):
                found = found[part]
        except KeyError:
            line = self._line(wanted.script, words)
            why = line.get("failed") or line.get("storing_refused") or "a short run has none"
            return said | {"command": command, "missing": why}
        if isinstance(found, Mapping):
            found = {name: found[name] for name in ("median", "range")}
        else:
            found = {"median": found, "range": [found, found]}  # the benchmark states no range
        return said | {"command": command} | found

    def _line(self, script: str, words: tuple[str, ...]) -> dict[str, Any]:
        key = script, *words
        if key not in self._lines:
            command = [sys.executable, str(BENCH / f"{script}.py"), *words]
            variables = os.environ | {"OMP_NUM_THREADS": "1"}
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    command, capture_output=True, text=True, cwd=folder, env=variables, check=False
                )
            failed = {"failed": reason(done.stderr)}
            self._lines[key] = failed if done.returncode else json.loads(done.stdout)
        return self._lines[key]
