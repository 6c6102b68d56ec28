"""Published figures: one JSON file for each question; `docs/reliability.md` quotes them."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "docs" / "results"


def publish(name: str, figures: Mapping[str, object]) -> None:
    """Write these figures with their command and machine."""
    where = {
        "command": " ".join(["python", *(word for word in sys.argv if word != "--publish")]),
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
    }
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps({**where, **figures}, indent=1) + "\n")
