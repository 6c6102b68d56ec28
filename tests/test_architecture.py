"""The borders of the packages, read from the source: imports, calls and the build's list."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from farflung.learner.algorithms.builtin import BUILT_IN, load

ROOT = Path(__file__).parents[1]
PACKAGES = ("common", "actor", "learner", "broker")
BELOW = {  # what each package may import
    "common": {"common"},
    "actor": {"common", "actor"},
    "broker": {"common", "broker"},
    "learner": {"common", "actor", "learner"},
}


@cache
def sources() -> dict[str, ast.Module]:
    """Every module of ours by its path."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in paths}


@cache
def imports() -> dict[str, set[str]]:
    """The full names that each module imports."""
    found: dict[str, set[str]] = {path: set() for path in sources()}
    for path, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                found[path] |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found[path] |= {
                    str(node.module),
                    *(f"{node.module}.{alias.name}" for alias in node.names),
                }
    return found


def importers(name: str) -> set[str]:
    """The modules that import this one, or anything in it."""
    return {
        path
        for path, names in imports().items()
        if any(f"{other}.".startswith(f"{name}.") for other in names)
    }


@cache
def calls() -> tuple[tuple[str, ast.Call, str], ...]:
    """Every call: path, node and the callee as it is written."""
    return tuple(
        (path, node, ast.unparse(node.func))
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
    )


def callers(*names: str) -> set[str]:
    """Return the modules that call something with one of these last words."""
    return {
        path
        for path, _, called in calls()
        if any(f".{called}".endswith(f".{name}") for name in names)
    }


def test_packages_import_only_what_is_below_them():
    """Common knows no role, actor and broker know common, the learner knows common and actor."""
    for path, names in imports().items():
        ours = {name.split(".")[1] for name in names if name.startswith("farflung.")}
        assert ours & set(PACKAGES) <= BELOW[path.partition("/")[0]], path


def test_heavy_libraries_are_imported_in_one_place():
    """An actor needs no torch, a broker neither gymnasium nor onnxruntime."""
    assert {path.partition("/")[0] for path in importers("torch")} == {"learner"}
    assert importers("gymnasium") == {
        "actor/worlds/gymnasium.py",
        "actor/worlds/gymnasium_check.py",
        "actor/worlds/gymnasium_minatar.py",
        "actor/worlds/gymnasium_spaces.py",
        "actor/worlds/gymnasium_stand_in.py",
        "actor/worlds/gymnasium_wrappers.py",
        "learner/dataset/minari_dataset.py",
    }
    assert importers("pettingzoo") == {
        "actor/worlds/pettingzoo.py",
        "actor/worlds/pettingzoo_check.py",
    }
    assert importers("onnxruntime") == {"actor/acting/policy.py"}
    dashboard = {"learner/dashboard/app.py", "learner/dashboard/server.py"}
    assert importers("asyncio") == {"actor/session.py", *dashboard}  # no actor, learner or broker
    assert importers("uvicorn") == {"learner/dashboard/server.py"}
    assert importers("starlette") == {
        *(*dashboard, "learner/dashboard/access.py", "learner/dashboard/steering.py")
    }
    assert importers("farflung.learner.dashboard.app") == {"learner/dashboard/command.py"}
    assert importers("zmq.utils.monitor") == set()  # it imports asyncio


def test_zmq_is_imported_only_at_the_border():
    """Protocol, training and replay take bytes and the clock."""
    border = {
        *(
            f"common/net/{name}.py"
            for name in (
                "authenticator",
                "connection_watch",
                "diagnose",
                "gate",
                "handshake",
                "keys",
                "listener",
                "monitor",
                "sockets",
            )
        ),
        "actor/connection/sockets.py",
        "learner/transport/network_thread.py",
        "learner/cli/self_test.py",
    }
    assert {path for path in importers("zmq") if not path.startswith("broker/")} <= border


@pytest.mark.slow
def test_processes_share_nothing_but_messages():
    """No multiprocessing, no shared or mapped memory, no lock, no inherited descriptor."""
    for name in (
        "multiprocessing",
        "concurrent",
        "torch.multiprocessing",
        "mmap",
        "posix_ipc",
        "sysv_ipc",
    ):
        assert importers(name) == set(), name
    # The lock on a run's folder keeps a second learner out of it. It is never waited for.
    assert callers("flock", "lockf") == {"learner/storage/run_folder.py"}
    # And a connection is asked for the number of its unread bytes.
    assert importers("fcntl") == {"learner/storage/run_folder.py", "common/net/connection_watch.py"}
    assert callers("ioctl") == {"common/net/connection_watch.py"}
    assert not callers("share_memory_", "share_memory", "fork", "forkserver", "SharedMemory")
    assert not callers("set_start_method")
    handed = {keyword.arg for _, call, _ in calls() for keyword in call.keywords}
    assert handed.isdisjoint({"pass_fds", "preexec_fn"})


@pytest.mark.slow
def test_received_bytes_are_never_executed():
    """No pickle in any form, no torch.load, no eval, exec or __import__."""
    for name in ("pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"):
        assert importers(name) == set(), name
    assert not callers("torch.load", "loads_pickle", "np.load", "numpy.load")
    assert {called for _, _, called in calls()}.isdisjoint({"eval", "exec", "compile"})
    assert "__import__" not in {called for _, _, called in calls()}


def test_modules_are_imported_by_name_only_from_flags():
    """`plugins` alone imports by name, for flags of this machine and for built-in algorithms."""
    assert callers("import_module") == {"common/process/plugins.py"}
    assert importers("farflung.common.process.plugins") <= {
        "actor/worlds/own.py",
        "learner/algorithms/builtin.py",
        "learner/core/build.py",
        "learner/config_section.py",
        "learner/observe/outlets.py",
        "learner/worker/making.py",
    }


def test_built_in_algorithms_are_ours():
    """Their table names modules of this package, each with the class and settings that it says."""
    for name, each in BUILT_IN.items():
        assert each.place.startswith("farflung.learner.algorithms."), name
        found = load(name)
        assert (found.name, found.Settings) == (name, each.settings)


def test_environments_are_imported_by_name_only_from_flags():
    """Both functions import modules too: their callers have names of this machine."""
    assert callers("import_own", "import_packages_of") == {
        "actor/main.py",
        "actor/worlds/environment_process.py",  # from the actor that started it
        "learner/cli/check.py",
        "learner/learner.py",
        "learner/policies/evaluating.py",
        "learner/policies/exporting.py",
        "learner/policies/imports.py",
        "learner/selfplay/entrants.py",
        "learner/team/command.py",
        "learner/team/frozen.py",
    }


def test_msgpack_is_read_without_extension_types():
    """`unpackb` sets max_ext_len=0 wherever it is called."""
    assert importers("msgpack") == {
        "common/protocol/packing.py",
        "learner/storage/checkpoint.py",
        "learner/storage/journal/payloads.py",
        "learner/storage/manifest.py",
    }
    limits = [
        {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        for _, call, called in calls()
        if called == "msgpack.unpackb"
    ]
    assert limits
    assert all(limit["max_ext_len"] == "0" for limit in limits)


def test_packages_never_sleep():
    """Every wait has a wake-up: a socket, a pipe or an event."""
    assert not callers("time.sleep", "sleep")


def test_replay_has_one_writer():
    """Only training adds rows, and a worker to its own."""
    assert callers("replay.add") == {
        "learner/core/core.py",
        "learner/demonstrations/mixing.py",
        "learner/worker/trainee.py",
    }


def test_build_lists_every_package():
    """The packages in pyproject.toml are the folders with an `__init__.py`."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {
        ".".join(("farflung", *path.parent.relative_to(ROOT).parts))
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    }
    assert set(build["packages"]) == folders | {"farflung"}
    assert {"farflung": "farflung"} | {f"farflung.{name}": name for name in PACKAGES} == build[
        "package-dir"
    ]


def test_build_lists_every_file_of_data():
    """Files that are no modules, such as presets, are in the package data of pyproject.toml."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed = {
        path
        for package, patterns in build["package-data"].items()
        for pattern in patterns
        for path in ROOT.glob("/".join((*package.split(".")[1:], pattern)))
    }
    found = {
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }
    assert found <= listed
