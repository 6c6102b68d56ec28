"""The check of an algorithm: its graph, columns, bits, state and gradients, in short runs."""

import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from farflung.actor.worlds.findings import ERROR, Checked
from farflung.common.data.parcel import Parcel
from farflung.common.process.errors import Diverged, FarflungError
from farflung.learner.algorithms.protocol import Algorithm
from farflung.learner.cli.trial import Trial, copied, differing, digest
from farflung.learner.config import LearnerConfig
from farflung.learner.storage.checkpoint import Checkpoint, copies, load, save


class Wrong(Exception):
    """A sentence about something without which the rest cannot be checked."""


def check(
    config: LearnerConfig, beat: Callable[[], None], teacher: LearnerConfig | None = None
) -> Checked:
    """Check the algorithm of a sequential configuration in its environment.

    `teacher` is a configuration that collects demonstrations for one that learns from those only.
    """
    found = Checked(config.environment, config.algorithm)
    torch.set_num_threads(config.threads)
    with _quiet(), TemporaryDirectory() as folder:
        try:
            _check(config, Path(folder), beat, teacher, found)
        except (Wrong, FarflungError) as error:
            found.add(ERROR, str(error))
        except Exception as error:  # a user's code
            found.add(ERROR, f"it raised {error!r} {_place(error)}")
    return found


@contextmanager
def _quiet() -> Iterator[None]:
    """Show only errors of the learner in a block: its runs of a second end as they are asked to."""
    ours = logging.getLogger("farflung.learner")
    before = ours.level
    ours.setLevel(logging.ERROR)
    try:
        yield
    finally:
        ours.setLevel(before)


def _check(
    config: LearnerConfig,
    folder: Path,
    beat: Callable[[], None],
    teacher: LearnerConfig | None,
    found: Checked,
) -> None:
    shown: Sequence[Parcel] = ()
    if teacher is not None:
        teaching = Trial(teacher, folder, "teacher")
        teaching.play(teacher, beat)
        shown = teaching.parcels
    trial = Trial(config, folder, "one", shown)
    beat()  # nor was the export of the acting graph
    _describe(trial, found)
    _played(trial, config, beat, found)
    if found.errors:
        return  # of what is not finite, all else is too
    _look_at_columns(trial, found)
    _look_at_parameters(trial, found)
    again = trial.fresh("two")
    again.play(config, beat)
    _compare(trial, again, found)
    _look_at_state(trial, trial.fresh("three"), found)
    _resume(trial, trial.fresh("four"), trial.fresh("five"), found)


def _describe(trial: Trial, found: Checked) -> None:
    """Say what is known once the algorithm was made: the proof of the graph is in its making."""
    spec, graph = trial.core.spec, trial.core.spec.graph
    found.observation = ", ".join(
        f"{key or 'an observation'} {leaf.dtype} {list(leaf.shape)}"
        for key, leaf in spec.observation.items()
    )
    found.action = f"{spec.action.kind} {list(spec.action.sizes or spec.action.shape)}"
    found.shown.append(
        f"graph: {len(graph.model):,} bytes answer as torch does under any weights, with the head "
        f"{spec.head}"
    )


def _played(trial: Trial, config: LearnerConfig, beat: Callable[[], None], found: Checked) -> None:
    """Play the first run, and look at its gradients."""
    diverged = ""
    try:
        trial.play(config, beat)
    except Diverged as error:
        diverged = str(error)
    state, watched = trial.core.state, trial.watched
    found.steps, found.updates = state.steps, len(watched.updates)
    found.episodes = trial.core.progress.episodes
    if watched.broken:
        found.add(ERROR, f"gradients: {_some(watched.broken)} not finite: {_first_broken(trial)}")
    elif diverged:
        found.add(ERROR, f"gradients: {diverged}")
    elif not watched.updates:
        raise Wrong(
            f"no update was made in {state.steps:,} steps: the replay never has a batch, or "
            "--warmup and the rollout are larger"
        )
    else:
        found.shown.append(f"gradients: finite in all of {found.updates} updates")


def _first_broken(trial: Trial) -> str:
    values = f"{trial.core.guard.skipped} updates were left out"
    return f"{values}; look for a division by zero, a logarithm or a root of it"


def _look_at_columns(trial: Trial, found: Checked) -> None:
    """Find columns that were asked for, and that no batch has."""
    spec, batches = trial.core.spec, [kept.batch for kept in trial.watched.updates]
    names = [extra.name for extra in spec.row_extras]
    missing = [name for name in names if any(name not in batch.columns for batch in batches)]
    for name in missing:
        found.add(
            ERROR, f"columns: {name} is recorded by actors, and the rows of replay() leave it out"
        )
    if not missing:
        found.shown.append(
            f"columns: {', '.join(names)} arrive in each batch" if names else "columns: none"
        )


def _look_at_parameters(trial: Trial, found: Checked) -> None:
    """Find parameters that no update changed."""
    now, watched = trial.policy_tensors(), trial.watched
    still = [name for name in now if name not in differing(trial.begun, now)]
    forgotten = [name for name in still if name in watched.moved]
    unused = [name for name in still if name not in watched.moved]
    for names, why in (
        (forgotten, "gradients() has some for it, and apply() leaves it out"),
        (
            unused,
            "no gradient reaches it, as the loss does not depend on it, or gradients() or "
            "apply() leave it out",
        ),
    ):
        if names:
            found.add(ERROR, f"parameters: updates do not change {_some(names)}: {why}")
    if not still:
        found.shown.append(f"parameters: updates change all {len(now)} of the policy")


def _compare(one: Trial, other: Trial, found: Checked) -> None:
    """Compare two runs of one seed."""
    word = "repetition: two sequential runs of one seed"
    if one.start != other.start:
        found.add(ERROR, f"{word} begin with other weights: make networks within `seeded(seed)`")
        return
    for number, (first, second) in enumerate(
        zip(one.watched.updates, other.watched.updates, strict=False), 1
    ):
        if first.seen != second.seen:
            found.add(
                ERROR,
                f"{word} differ in the batch of update {number}: what the environment, the sampler "
                "or the rows draw must follow from the seed",
            )
            return
        if first.found != second.found:
            found.add(
                ERROR,
                f"{word} differ in the gradients of update {number}: what the loss draws must "
                "follow from the seed and the number of the update, as `normal` does",
            )
            return
    names = differing(one.core.algorithm.state(), other.core.algorithm.state())
    if names:
        found.add(ERROR, f"{word} end with another {_some(names)}: look at apply()")
    else:
        found.shown.append(f"{word} have the same bits ({one.core.fingerprint[:16]})")


def _look_at_state(trial: Trial, fresh: Trial, found: Checked) -> None:
    """Find changes that `gradients` makes, which a skipped update would leave behind."""
    algorithm, batch = fresh.watched.inner, trial.watched.updates[0].batch
    before = copied(algorithm.state())
    first = digest(algorithm.gradients(batch).tensors)
    if names := differing(before, algorithm.state()):
        found.add(ERROR, f"gradients() changes {_some(names)}: only apply() may")
    elif digest(algorithm.gradients(batch).tensors) != first:
        found.add(
            ERROR,
            "gradients() returns others for the same batch and weights: what it draws must follow "
            "from the seed and the number of the update",
        )


def _resume(trial: Trial, straight: Trial, resumed: Trial, found: Checked) -> None:
    """Compare updates that go on with those of a fresh instance, from a checkpoint on disk."""
    batches = [kept.batch for kept in trial.watched.updates]
    half = len(batches) // 2
    one, other = straight.watched.inner, resumed.watched.inner
    for batch in batches[:half]:
        one.apply(one.gradients(batch))
    save(straight.folder, Checkpoint(copies(one.state())))
    other.restore(load(straight.folder).tensors)
    if names := differing(one.state(), other.state()):
        found.add(ERROR, f"resume: restore() does not bring back {_some(names)}")
        return
    for number, batch in enumerate(batches[half:], half + 1):
        for algorithm in (one, other):
            algorithm.apply(algorithm.gradients(batch))
        before, after = ({**each.state(), **_policy(each)} for each in (one, other))
        if names := differing(before, after):
            found.add(
                ERROR,
                f"resume: update {number} leads to another {_some(names)} after restore() than "
                "without: state() has to have all that training changes, such as moments and "
                "counts of the optimizer, and what is drawn follows from the seed and the count",
            )
            return
    found.shown.append(f"resume: a run goes on from its checkpoint with the same bits after {half}")


def _policy(algorithm: Algorithm) -> dict[str, Tensor]:
    module = algorithm.policy()
    return {f"policy {name}": tensor for name, tensor in module.state_dict().items()}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more}"


def _place(error: BaseException) -> str:
    """Return the place of the user's own code that raised it, or else the last one."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[2])
    own = [each for each in frames if not each.filename.startswith(ours)]
    own = [each for each in own if "site-packages" not in each.filename] or list(frames)
    last = own[-1]
    return f"in {Path(last.filename).name}, line {last.lineno}"
