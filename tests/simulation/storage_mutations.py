"""Faults planted in journal, checkpoints and recovery, each of which the simulation must notice."""

import importlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

from simulation.mutations import Mutation

STORAGE_MUTATIONS = (
    Mutation(
        "acknowledge before commit",
        "journal.journal",
        "            self._sync()\n            self._report_room()\n",
        "            self._report_room()\n",
        seed=2,
    ),
    Mutation(
        "a full disk passed over",
        "journal.log",
        "            self._disk.write(self._descriptor, self._end, pieces)\n",
        "            try:\n"
        "                self._disk.write(self._descriptor, self._end, pieces)\n"
        "            except OSError:\n"
        "                pass\n",
        seed=9,
    ),
    Mutation(
        "a failed sync passed over",
        "journal.journal",
        "            self._sync()\n            self._report_room()\n",
        "            try:\n"
        "                self._sync()\n"
        "            except OSError:\n"
        "                pass\n"
        "            self._report_room()\n",
        seed=37,
    ),
    Mutation(
        "go on after an error of the disk",
        "journal.journal",
        "            self._sync()\n            self._report_room()\n",
        "            try:\n"
        "                self._sync()\n"
        "            except OSError:\n"
        "                self._sync()\n"
        "            self._report_room()\n",
        seed=37,
    ),
    Mutation(
        "found in memory after an error, and not written again",
        "recover",
        "        _write_again(journal, numbers[-1])\n",
        "",
        seed=107,
    ),
    Mutation(
        "inbox forgotten at recovery",
        "recover",
        "Inbox.restore(totals.inbox.state()),",
        "Inbox(totals.inbox.epoch + 1),",
    ),
    Mutation(
        "epoch not raised at recovery",
        "journal.log",
        "segment.append([(Kind.START, payloads.pack(start))])",
        "pass",
    ),
    Mutation(
        "segments dropped by the newest checkpoint",
        "manifest",
        "in kept(run_folder)]",
        "in kept(run_folder)[-1:]]",
        seed=1,
    ),
    Mutation(
        "segments dropped before they are replayed",
        "manifest",
        ", int(each[REPLAY_FROM]))",
        ", int(each[POSITION][0]))",
        seed=1,
    ),
    Mutation(
        "found, acknowledged, not synced",
        "recover",
        "    if durable:\n",
        "    if not durable:\n",
        seed=110,
    ),
    Mutation(
        "folder not synced at a new segment",
        "journal.log",
        "            if durable:\n                disk.sync_folder(folder)",
        "            pass",
        seed=2,
    ),
    Mutation(
        "segment not synced",
        "journal.log",
        "        if self._durable or always:\n            self._disk.sync(",
        "        if False:\n            self._disk.sync(",
        seed=2,
    ),
    Mutation(
        "torn tail not cut",
        "journal.segments",
        "atomic_file.truncate(path_of(folder, number), found.start)",
        "pass",
    ),
    Mutation(
        "segments dropped in any order",
        "journal.log",
        "                if self._durable:\n"
        "                    self._disk.sync_folder(self.folder)\n",
        "                pass\n",
        seed=35,
    ),
    Mutation(
        "MANIFEST renamed before its folder is synced",
        "checkpoint",
        "in (*folder.iterdir(), folder, folder.parent):",
        "in ():",
        seed=1,
    ),
    Mutation(
        "MANIFEST not synced before it counts",
        "farflung.common.process.atomic_file",
        "            os.fsync(descriptor)\n        draft",
        "        draft",
        seed=1,
    ),
)


@contextmanager
def planted(mutation: Mutation) -> Iterator[None]:
    """Run the changed functions of a module with this fault for a while."""
    module = importlib.import_module(_full_name(mutation))
    source = inspect.getsource(module)
    if source.count(mutation.right) != 1:
        raise LookupError(
            f"{mutation.name}: {mutation.right!r} must stand in {module.__name__} exactly once"
        )
    faulty = ModuleType(module.__name__)
    exec(
        compile(source.replace(mutation.right, mutation.wrong), f"<{mutation.name}>", "exec"),
        faulty.__dict__,
    )
    wrong, right = _functions(faulty), _functions(module)
    before = {name: function.__code__ for name, function in right.items()}
    try:
        for name, function in right.items():
            function.__code__ = wrong[name].__code__
        yield
    finally:
        for name, code in before.items():
            right[name].__code__ = code


def _full_name(mutation: Mutation) -> str:
    module = mutation.module
    return module if module.startswith("farflung.") else f"farflung.learner.storage.{module}"


def _functions(module: ModuleType) -> dict[str, FunctionType]:
    """Return the functions and methods that a module defines, by name."""
    own = {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", "") == module.__name__
    }
    methods = {
        f"{name}.{key}": value
        for name, kind in own.items()
        if isinstance(kind, type)
        for key, value in vars(kind).items()
    }
    found = {
        name: value for name, value in (own | methods).items() if isinstance(value, FunctionType)
    }
    return {name: function for name, function in found.items() if not function.__code__.co_freevars}
