"""Every attack that is known, by name: `make siege` draws from them, and tests run them alone.

A module of this folder registers its own:

    @attack("idle connections", needs=Needs.NOTHING)
    def idle_connections(peer: Peer, seconds: float) -> None:
        with peer.idle(4_000):
            time.sleep(seconds)

An attack gets a peer that it need not close, and ends within `seconds` by itself. It needs an
allowed key (the peer has one then, and `peer.spec` is set), or nothing at all (the peer has no
key, and where the learner has keys nothing is known of it). `load` imports all modules, and
`python -m hostile.attacks` lists the attacks.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from hostile.peer import Peer

APART = (
    "attacking",
    "attacks",
    "bounds",
    "each",
    "lines",
    "peer",
    "rows",
    "run",
    "seen",
    "siege",
    "victim",
)  # modules without attacks


class Needs(StrEnum):
    """The least that a peer must have for an attack."""

    NOTHING = "nothing"
    KEY = "one allowed key"


Run = Callable[[Peer, float], None]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack."""

    name: str
    run: Run
    needs: Needs


ATTACKS: dict[str, Attack] = {}


def attack(name: str, needs: Needs = Needs.KEY) -> Callable[[Run], Run]:
    """Register a function as an attack."""

    def register(run: Run) -> Run:
        assert name not in ATTACKS, f"two attacks are called {name}"
        ATTACKS[name] = Attack(name, run, needs)
        return run

    return register


def load() -> dict[str, Attack]:
    """Import every module of this folder; return all attacks."""
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.stem not in APART and not path.stem.startswith(("test_", "_", "conftest")):
            importlib.import_module(f"hostile.{path.stem}")
    return ATTACKS


def main() -> None:
    """Print the attacks."""
    from hostile import attacks  # the module that others register with, not `__main__`

    for name, found in attacks.load().items():
        print(f"{name}: needs {found.needs}")


if __name__ == "__main__":
    main()
