"""The text inside an exported file: spec, checkpoint and evaluation. And the way back to a policy.

The text is JSON under the key `farflung` of the file's metadata. `learner export` and
`farflung.load` share it.
"""

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, structs

from farflung.actor.acting.loaded import LoadedPolicy, Starts
from farflung.actor.acting.policy import WholeGraph
from farflung.common.data.spec import Spec, column_name
from farflung.common.data.weights import Weights
from farflung.common.process.errors import ConfigurationError, Refused
from farflung.common.protocol.packing import from_plain, to_plain
from farflung.learner.storage.policies import Best

KEY = "farflung"
MASK = "action_mask"  # an input of the file, where the environment has it in its info
FORMAT = 1


class Exported(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about an exported policy."""

    format: int
    release: str  # that wrote it
    checkpoint: str  # best, last or a number
    version: str
    steps: int
    updates: int
    returns: tuple[float, ...]  # of its evaluation while it trained; none: it has no evaluation
    starts: dict[str, tuple[int, ...]]
    spec: Spec  # its graph has no model: that is the file


def facts_of(
    spec: Spec, starts: Starts, checkpoint: str, weights: Weights, best: Best | None
) -> Exported:
    """Return the facts about a checkpoint; `best` is its evaluation, if it has one."""
    return Exported(
        FORMAT,
        version("farflung"),
        checkpoint,
        str(weights.version),
        weights.steps,
        weights.updates,
        () if best is None else best.returns,
        {name: tuple(first) for name, first in starts.items()},
        structs.replace(spec, graph=structs.replace(spec.graph, model=b"")),
    )


def to_text(facts: Exported) -> str:
    """Return the facts as JSON."""
    plain = to_plain(facts)
    plain["spec"]["graph"]["model"] = ""
    return json.dumps(plain)


def from_text(text: str) -> Exported:
    """Return the facts in JSON, or refuse them."""
    try:
        plain: dict[str, Any] = json.loads(text)
        if plain["format"] != FORMAT:
            raise Refused("format", f"{plain['format']}, and this release reads {FORMAT}")
        plain["spec"]["graph"]["model"] = b""
        return from_plain(Exported, plain)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Refused("malformed", f"the metadata under {KEY!r}: {error}") from error


def metadata_of(facts: Exported) -> Mapping[str, str]:
    """Return the metadata of a file: all facts as JSON, and a few for people who look at it."""
    return {
        KEY: to_text(facts),
        "environment": facts.spec.world.environment,
        "checkpoint": f"{facts.checkpoint}, version {facts.version}, {facts.steps} steps",
    }


def load_exported(path: Path, seed: int = 0) -> LoadedPolicy:
    """Return the policy in a file that `learner export` wrote."""
    try:
        graph = WholeGraph(path.read_bytes())
        facts = from_text(graph.metadata[KEY])
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except (Refused, KeyError) as error:
        raise ConfigurationError(
            f"{path} is not a policy that `learner export` wrote as ONNX: {error}"
        ) from error
    graph.outputs = [output.name for output in facts.spec.graph.outputs]
    counted = _Counted(graph, facts)
    return LoadedPolicy(facts.spec, counted, facts.starts, facts.steps, facts.version, seed)


class _Counted:
    """The file's graph behind columns that count from 0: the file itself takes the space's own."""

    def __init__(self, graph: WholeGraph, facts: Exported) -> None:
        self._graph, self._facts = graph, facts

    def answer(self, inputs: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Return the outputs for inputs that count from 0."""
        return self._graph.answer(
            shifted(inputs, self._facts.spec, self._facts.starts) | self._all(inputs)
        )

    def _all(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return a mask of all actions if the file takes one: no output but `action` needs it."""
        if MASK not in self._graph.inputs:
            return {}
        rows = len(next(iter(inputs.values())))
        return {MASK: np.ones((rows, sum(self._facts.spec.action.sizes)), np.bool_)}


def shifted(inputs: Mapping[str, np.ndarray], spec: Spec, starts: Starts) -> dict[str, np.ndarray]:
    """Return inputs as environments have them, from inputs that count from 0."""
    found = dict(inputs)
    for key, space in spec.observation.items():
        name = column_name(key)
        if name in starts:
            rows = inputs[name]
            found[name] = rows + np.reshape(starts[name], space.shape).astype(rows.dtype)
    return found
