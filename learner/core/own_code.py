"""A user's own algorithm or network at work: what it raises is named as theirs."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from farflung.common.process.errors import FarflungError, OwnCodeFailure
from farflung.learner import algorithms
from farflung.learner.algorithms.builtin import BUILT_IN
from farflung.learner.config import LearnerConfig

ALGORITHMS = Path(algorithms.__file__).resolve().parent


@contextmanager
def named(config: LearnerConfig) -> Iterator[None]:
    """Raise `OwnCodeFailure` for an exception that comes out of an algorithm or network.

    Its traceback passes their files, or ours of algorithms, which call theirs. All others pass, as
    all do where only built-in code is in use.
    """
    flags = [f"--algorithm {config.algorithm}"] if config.algorithm not in BUILT_IN else []
    flags += [f"--model {config.model}"] if config.model else []
    try:
        yield
    except FarflungError:
        raise
    except Exception as error:
        if not flags or not _passes(error, [flag.split()[1] for flag in flags]):
            raise
        trace = "".join(traceback.format_exception(error))
        raise OwnCodeFailure(
            f"{' with '.join(flags)} raised {error!r}, which is no fault of Farflung's. "
            f"Its traceback:\n{trace}"
        ) from error


def _passes(error: BaseException, names: list[str]) -> bool:
    """Return whether a traceback passes a module of these names, or our algorithms."""
    modules = [sys.modules.get(name.partition(":")[0]) for name in names]
    own = {str(module.__file__) for module in modules if module is not None}
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return any(file in own or Path(file).resolve().parent == ALGORITHMS for file in files)
