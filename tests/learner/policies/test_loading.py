"""`farflung.load`: policies from folders and files, without torch, on any system."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.learners import a_policy_run

import farflung
from farflung.common.data.weights import Version
from farflung.common.process.errors import ConfigurationError
from farflung.learner.policies import exporting
from farflung.learner.policies.named import checkpoint_of
from farflung.learner.storage import archive, policies

ROOT = Path(__file__).parents[3]
# Modules that only POSIX systems have, and those that acting must not need.
BLOCKED = """
fcntl grp posix pty pwd resource syslog termios tty
torch gymnasium onnx onnxscript safetensors tensorboard
""".split()  # noqa: SIM905
ALONE = f"""
import json, sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
import os, pathlib, shutil, subprocess, tempfile  # of Python itself, which has its own ways
for name in {BLOCKED!r}:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Block())
builtin = set(sys.builtin_module_names) & set({BLOCKED!r})
import farflung
assert not [name for name in sys.modules if name in ("numpy", "onnxruntime", "zmq")]
import numpy as np
{{body}}
print(json.dumps(found))
"""
ACT = """
shown = np.random.default_rng(0).standard_normal((50, 4))
found = [farflung.load(path).act(shown).tolist() for path in sys.argv[1:]]
"""


def alone(body, *words):
    """Return the result of a script in a process without these modules."""
    script = ALONE.replace("{body}", body)
    ended = subprocess.run(
        [sys.executable, "-c", script, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


@pytest.mark.slow
def test_policy_acts_without_torch_and_without_posix(run_of, tmp_path):
    """From a folder and from a file, as it does here."""
    import numpy as np

    run, file = run_of("plain"), tmp_path / "a.onnx"
    exporting.to_onnx(exporting.open_source(run, ""), file)
    shown = np.random.default_rng(0).standard_normal((50, 4))
    expected = farflung.load(run).act(shown).tolist()
    assert alone(ACT, str(run), str(file)) == [expected, expected]
    assert len(set(expected)) == 2


@pytest.mark.slow
def test_import_of_the_package_brings_nothing_else():
    """It takes no time: numpy, onnxruntime and torch come with what needs them."""
    script = "import sys, farflung; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(ended.stdout.split())
    assert {name for name in loaded if name.startswith("farflung")} == {"farflung"}
    assert loaded.isdisjoint({"numpy", "torch", "onnxruntime", "zmq", "msgspec", "cyclopts"})


@pytest.mark.slow
def test_folder_has_its_checkpoints(tmp_path):
    """The best by default, else the last; a number names one."""
    run = a_policy_run(tmp_path, environment="CartPole-v1")
    assert [farflung.load(run, name).version for name in ("", "best", "last", "1")] == ["1.1"] * 4
    best, last = farflung.load(run), farflung.load(run, "last")
    shown = [[0.5, 0.5, 0.5, 0.5], [-0.5, 0.5, -0.5, 0.5], [0.1, -0.5, 0.2, 0.9]]
    assert best.act(shown).tolist() != last.act(shown).tolist()
    (run / "checkpoints" / "best").unlink()
    assert farflung.load(str(run)).act(shown).tolist() == last.act(shown).tolist()
    with pytest.raises(ConfigurationError, match="--evaluate-every"):
        farflung.load(run, "best")


@pytest.mark.slow
def test_archived_version_is_named_by_epoch_and_number(tmp_path):
    """As a checkpoint, and in one word with the folder; another one is refused with those there."""
    run = a_policy_run(tmp_path, environment="CartPole-v1")
    last = policies.read_weights(run, policies.read_spec(run), "last")
    archive.add(run, replace(last, version=Version(2, 40)), 7, most=10)
    shown = [[0.5, 0.5, 0.5, 0.5], [-0.5, 0.5, -0.5, 0.5], [0.1, -0.5, 0.2, 0.9]]
    expected = farflung.load(run, "last").act(shown).tolist()
    for one in (farflung.load(run, "2.40"), farflung.load(f"{run}@2.40")):
        assert (one.version, one.act(shown).tolist()) == ("2.40", expected)
    assert farflung.load(f"{run}@best").act(shown).tolist() != expected
    with pytest.raises(ConfigurationError, match=r"no archived version 2\.41: it has 2\.40"):
        farflung.load(f"{run}@2.41")
    with pytest.raises(ConfigurationError, match="names a checkpoint already"):
        farflung.load(f"{run}@2.40", "last")


def test_folder_with_an_at_sign_is_a_folder(tmp_path):
    """Only a path that is not there is cut at its last @."""
    (tmp_path / "a@b").mkdir()
    assert checkpoint_of(tmp_path / "a@b") == (tmp_path / "a@b", "")
    assert checkpoint_of(tmp_path / "a@b@1.2") == (tmp_path / "a@b", "1.2")
    assert checkpoint_of(tmp_path / "a@", "last") == (tmp_path / "a@", "last")


@pytest.mark.slow
def test_exported_file_has_one_checkpoint(run_of, tmp_path):
    """To ask for another is a mistake."""
    file = tmp_path / "a.onnx"
    exporting.to_onnx(exporting.open_source(run_of("plain"), ""), file)
    with pytest.raises(ConfigurationError, match="name the folder of a run"):
        farflung.load(file, "last")


def test_place_without_a_policy_is_named(tmp_path):
    """A folder, and one that is not there."""
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ConfigurationError, match="not the folder of a run"):
            farflung.load(path)
