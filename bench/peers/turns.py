"""The arms of a row in turns: each is a process in its own environment that prints one line."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import _verdict
from bench.peers import environments
from bench.peers.environments import ROOT, Missing
from bench.peers.rows import OURS, Arm, Row

ARMS = Path(__file__).parent / "arms"


@dataclass(slots=True)
class Found:
    """The figures of one arm, a place for each round; a round without one has its reason."""

    version: str = ""
    values: list[float | None] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)  # of ours: its limit, in the same rounds
    failures: list[str] = field(default_factory=list)
    missing: str = ""  # why there is no figure at all


def measure(row: Row, arms: Sequence[Arm], rounds: int, short: bool) -> dict[str, Found]:
    """Return the figures of each arm, the order reversed from round to round."""
    found = {arm.label: Found() for arm in arms}
    pythons: dict[str, Path] = {}
    for arm in arms:
        try:
            pythons[arm.label] = environments.python(arm.peer)
            found[arm.label].version = environments.version(arm.peer)
            if not arm.script:
                raise Missing("it installs here; no script runs it yet")
        except Missing as missing:
            found[arm.label].missing = str(missing)
    able = [arm for arm in arms if not found[arm.label].missing]
    for number in range(rounds):
        for arm in able if number % 2 == 0 else able[::-1]:
            take(row, arm, pythons[arm.label], number, short, found[arm.label])
    return found


def take(row: Row, arm: Arm, python: Path, number: int, short: bool, found: Found) -> None:
    """Take one turn of an arm."""
    began = time.monotonic()
    try:
        line = run(row, arm, python, number, short)
        value = float(line.get("value", time.monotonic() - began))
        if refusal := unequal(row, line):
            raise Missing(refusal)
        if not short and not line.get("solved", True):
            raise Missing(f"not solved after {line['steps']:,} steps")
    except Missing as missing:
        found.values.append(None)
        found.failures.append(str(missing))
        return
    found.values.append(value)
    if "limit" in line:
        found.limits.append(float(line["limit"]))


def run(row: Row, arm: Arm, python: Path, number: int, short: bool) -> dict[str, Any]:
    """Return the line of a script that runs in a folder and a session of its own."""
    words = [arm.script + ".py", *arm.words, "--seed", str(number), *(["--short"] if short else [])]
    command = [python, ARMS / words[0], *words[1:]]
    variables = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    limit = row.timeout_s * (5 if short else 1)  # a short run is for a busy machine too
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=folder,
            env=variables | {"PYTHONPATH": str(ROOT)} if arm.peer == OURS else variables,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise Missing(f"not within {limit:g} s") from None
        finally:
            environments.end(process)
        if process.returncode:
            errors.seek(0)
            raise Missing(environments.reason(errors.read()[-4000:]))
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if not lines:
        raise Missing("it ended without a result")
    line: dict[str, Any] = json.loads(lines[-1])
    return line


def unequal(row: Row, line: dict[str, Any]) -> str:
    """Return a sentence if an arm made other updates per step than the row asks for."""
    if not row.updates_per_step:
        return ""
    made = line["updates"] / line["steps"]
    if _verdict.alike(made, row.updates_per_step):
        return ""
    return f"it made {made:.3g} updates a step, and the row asks for {row.updates_per_step:g}"
