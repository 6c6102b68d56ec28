"""Fuzz every decoder, two at a time: `python tests/fuzz/run.py --minutes 10`; `make fuzz` does.

Prints how often each was run; `--publish` writes it down. The exit code is 1 if an input led to
anything but a value or one of our own errors, took longer than ten seconds, or wanted memory out of
proportion. That input is kept, and `--target NAME --input FILE` runs it again.
"""

import argparse
import json
import logging
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

FOUND = ROOT / "runs" / "fuzz"  # inputs that broke something
RESULTS = ROOT / "docs" / "results" / "fuzz.json"
LONGEST = 8192  # bytes of an input
SLOWEST_S = 10
MEMORY = 512 << 20  # that decoding may take on top of what is loaded
DECODERS = [
    *(
        "farflung.common.protocol.wire",
        "farflung.common.protocol.parcels",
        "farflung.common.protocol.packing",
        "farflung.common.protocol.topics",
        "farflung.common.net.address",
        "farflung.common.protocol.receipts",
    ),
    *(
        "farflung.common.data.spec",
        "farflung.common.data.weights",
        "farflung.common.protocol",
        "farflung.actor.connection.policy_client",
        "farflung.actor.acting.graph_check",
        "farflung.actor.acting.protobuf",
        "farflung.actor.acting.spec_check",
        "farflung.actor.play",
        "farflung.common.heads",
    ),
    *(
        "farflung.broker.relay",
        "farflung.learner.endpoint",
        "farflung.learner.observe.endpoint_status",
        "farflung.learner.storage.journal",
        "farflung.learner.storage.manifest",
        "farflung.learner.storage.audit",
        "farflung.learner.storage.recover",
        "farflung.learner.observe.status",
        "farflung.learner.core.normalisation",
    ),
]
COUNT = re.compile(r"number_of_executed_units:\s*(\d+)")


def work(name: str, seconds: int, seed: int, corpus: str) -> None:
    """One target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=DECODERS):
        from fuzz.targets import TARGETS
    target = TARGETS[name]
    logging.disable()
    for index, data in enumerate(target.seeds()):
        Path(corpus, f"seed-{index}").write_bytes(data)
    flags = [
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={SLOWEST_S}",
        "-rss_limit_mb=0",
        "-print_final_stats=1",
    ]
    flags += [f"-seed={seed}", f"-artifact_prefix={FOUND}/{name}-", "-verbosity=0", corpus]

    def mutate(data: bytes, most: int, chance: int) -> bytes:
        changed = target.changed(data, chance) if chance % 2 else data
        return changed[:most] if changed != data else bytes(atheris.Mutate(data, most))

    limit_memory()
    atheris.Setup(
        [name, *flags], target.run, **({"custom_mutator": mutate} if target.structure else {})
    )
    atheris.Fuzz()


def limit_memory() -> None:
    """Limit the memory of this process: a MemoryError is a finding."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def fuzz(name: str, seconds: int, seed: int) -> dict[str, object]:
    """Fuzz one target in a process of its own; return the result."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as corpus:
        words = [
            sys.executable,
            __file__,
            "--target",
            name,
            "--seconds",
            str(seconds),
            "--seed",
            str(seed),
            "--corpus",
            corpus,
        ]
        try:
            ended = subprocess.run(
                words,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=2 * seconds + 600,
                check=False,
            )
            code, said = ended.returncode, ended.stderr + ended.stdout
        except subprocess.TimeoutExpired:
            code, said = -1, "it did not end"
    counted = COUNT.search(said)
    executions, took = int(counted[1]) if counted else 0, time.monotonic() - began
    print(
        f"{name:16} {executions:>12,} executions in {took:4.0f} s, "
        f"{'clean' if code == 0 else 'BROKEN'}",
        flush=True,
    )
    if code:
        print("\n".join(said.splitlines()[-40:]), flush=True)
    return {
        "target": name,
        "executions": executions,
        "seconds": round(took),
        "crashes": int(code != 0),
    }


def publish(command: str, results: list[dict[str, object]]) -> None:
    """Add a run to those that were written down.

    Remove the file before the first one of a release.
    """
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    runs.append({"command": command, "targets": results})
    totals = {
        key: sum(int(target[key]) for run in runs for target in run["targets"])
        for key in ("executions", "crashes")
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps({**totals, "runs": runs}, indent=1) + "\n")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish", action="store_true", help="write docs/results/fuzz.json")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--target", help="in this process")
    parser.add_argument("--input", type=Path, help="run this input once")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--corpus", default="")
    arguments = parser.parse_args()
    FOUND.mkdir(parents=True, exist_ok=True)
    if arguments.input:
        from fuzz.targets import TARGETS

        TARGETS[arguments.target].run(arguments.input.read_bytes())
        return 0
    if arguments.target:
        work(arguments.target, arguments.seconds, arguments.seed, arguments.corpus)
    from fuzz.targets import TARGETS

    if unknown := set(arguments.only) - set(TARGETS):
        named = ", ".join(sorted(unknown))
        parser.error(f"no target is called {named}: there are {', '.join(TARGETS)}")
    names = arguments.only or [*TARGETS]
    seconds = max(1, round(arguments.minutes * 60 * 2 / len(names)))
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda name: fuzz(name, seconds, arguments.seed), names))
    executions, crashes = (
        sum(int(str(result[key])) for result in results) for key in ("executions", "crashes")
    )
    print(f"{executions:,} executions of {len(names)} decoders, {crashes} of them broken")
    if arguments.publish:
        publish(
            " ".join(["python tests/fuzz/run.py", *(w for w in sys.argv[1:] if w != "--publish")]),
            results,
        )
    return int(crashes > 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
