"""The registry of heads: a spec names one of them, and all roles look it up here."""

from farflung.common.data.spec import INFO, INTERVENED, Column, Spec
from farflung.common.data.states import EPISODE, state_columns
from farflung.common.heads.bounded import DeterministicHead, SquashedGaussianHead
from farflung.common.heads.discrete import LogitsHead, QHead
from farflung.common.heads.gaussian import GaussianHead
from farflung.common.heads.head import Head
from farflung.common.heads.masks import require_mask
from farflung.common.heads.multi_discrete import MultiLogitsHead
from farflung.common.process.errors import Refused

HEADS: dict[str, Head] = {
    "q": QHead(),
    "logits": LogitsHead(),
    "gaussian": GaussianHead(),
    "squashed_gaussian": SquashedGaussianHead(),
    "deterministic": DeterministicHead(),
    "multi_logits": MultiLogitsHead(),
}


def register(name: str, head: Head) -> None:
    """Make a head known under a name. Call it when a package is imported, see --import."""
    HEADS[name] = head


def names() -> tuple[str, ...]:
    """Return the names of all heads that are known here."""
    return tuple(HEADS)


def find(name: str) -> Head:
    """Return the head of this name, or refuse."""
    if name not in HEADS:
        raise Refused(
            "head",
            f"the head {name!r} is not known here, only {', '.join(HEADS)}: "
            "import the package that registers it with --import",
        )
    return HEADS[name]


def outputs(spec: Spec) -> tuple[str, ...]:
    """Return the outputs that a spec's graph must have: the head's, then the recorded ones."""
    return *find(spec.head).outputs, *(column.name for column in _further(spec))


def further_outputs(spec: Spec) -> dict[str, int]:
    """Return the place among the graph's outputs of each extra column that is such an output."""
    places = {output.name: place for place, output in enumerate(spec.graph.outputs)}
    return {column.name: places[column.name] for column in _further(spec)}


def masked(spec: Spec) -> bool:
    """Return whether actions are chosen among those that the world's mask allows.

    With a head of one's own that knows no masks, such a column is one like the others.
    """
    return spec.mask is not None and getattr(find(spec.head), "masks", False)


def require(spec: Spec) -> None:
    """Refuse a spec unless its head, action space, graph and extra columns fit each other."""
    head = find(spec.head)
    head.require(spec)
    if spec.mask is not None and masked(spec):
        require_mask(spec.mask, spec.action)
    taken = [column.name for column in spec.columns]
    for extra in spec.row_extras:
        if taken.count(extra.name) > 1:
            raise Refused("columns", f"there are two columns named {extra.name}: rename one")
    further = {
        (output.name, output.dtype, output.shape)
        for output in spec.graph.outputs[len(head.outputs) :]
    }
    for extra in _further(spec):
        if (extra.name, extra.dtype, extra.shape) not in further:
            raise Refused("columns", _unknown(extra, head.columns(spec), spec))


def _further(spec: Spec) -> tuple[Column, ...]:
    """Return the extra columns that are outputs of the graph.

    Neither the head computes them, nor does the world or the owner of the loop supply them, nor are
    they a seat's recurrent state or its place in the episode.
    """
    others = (
        *find(spec.head).columns(spec),
        *spec.infos,
        INTERVENED,
        *state_columns(spec.graph),
        EPISODE,
    )
    return tuple(extra for extra in spec.row_extras if extra not in others)


def _unknown(extra: Column, computed: tuple[Column, ...], spec: Spec) -> str:
    known = ", ".join(f"{column.name} per {column.per}" for column in computed) or "none"
    return (
        f"the learner asks for the column {extra.name} ({extra.dtype} {extra.shape} per "
        f"{extra.per}), and nothing supplies it: the head {spec.head} computes {known}, the acting "
        f"graph has no further output of that name, dtype and shape, and the name of a column that "
        f"the world supplies begins with {INFO} (or is {INTERVENED.name}: bool per step)"
    )
