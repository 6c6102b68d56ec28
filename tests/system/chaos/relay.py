"""A broker that is killed under load: `python tests/system/chaos/relay.py`.

The broker is killed every 10 s for a minute; then the run is audited. Exit code 1 if an
acknowledged parcel is lost, doubled or changed, or if parcels of an actor behind the broker do not
count again within 3 s of a kill.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[level]) for level in (3, 2, 1)]

from chaos import ear as ears  # noqa: E402
from chaos.cast import Cast  # noqa: E402
from chaos.results import publish  # noqa: E402
from chaos.run import FLAGS, Stage, compare, holds, spread  # noqa: E402
from support.family import children_end  # noqa: E402
from support.waiting import took_at_most  # noqa: E402

from farflung.common.net import sockets  # noqa: E402

PROMISED_S = 3.0


def relay(folder: Path, *, seconds: float, every_s: float, actors: int) -> dict[str, object]:
    """Run actors behind a broker and kill it; return the figures to publish."""
    with sockets.context() as context, Cast(folder, direct=0, relayed=actors, flags=FLAGS) as cast:
        ear = ears.listening(context, cast.port, folder)
        stage = Stage(cast, ear)
        try:
            stage.wait_for_all("at the beginning")
            before, end = ear.steps, time.monotonic() + seconds
            while time.monotonic() < end:
                recovery = ears.of_broker(ear, [actor.name for actor in cast.relayed])
                ear.awaited = [recovery]
                stage.story.recoveries.append(recovery)
                stage.kill(cast.broker)
                while time.monotonic() < recovery.since + every_s:
                    stage.pass_time()
            steps = ear.steps - before
            stage.wait_for_all("at the end")
            cast.retire()
        finally:
            ear.feed.close()
        verdict = compare(cast)
    recoveries = stage.story.recoveries
    return {
        "kills": len(stage.story.kills),
        "seconds": seconds,
        "every_s": every_s,
        "actors": actors,
        "steps_per_second": round(steps / seconds),
        "back_s": spread(recovery.seconds for recovery in recoveries)
        | {"never": sum(recovery.seconds is None for recovery in recoveries)},
        **verdict,
        "surprises": cast.surprises,
    }


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument(
        "--every", type=float, default=10.0, help="seconds from one kill to the next"
    )
    parser.add_argument("--actors", type=int, default=4)
    parser.add_argument(
        "--promised",
        type=float,
        default=PROMISED_S,
        help="seconds within which all actors count again",
    )
    parser.add_argument("--publish", action="store_true", help="write docs/results/relay.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary, children_end():
        found = relay(
            Path(temporary).resolve(),
            seconds=asked.seconds,
            every_s=asked.every,
            actors=asked.actors,
        )
    print(json.dumps(found, indent=1))
    if asked.publish:
        publish("relay", found)
    back = found["back_s"]
    assert isinstance(back, dict)
    return (
        0
        if holds(found) and not back["never"] and took_at_most(back["worst"], asked.promised)
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
