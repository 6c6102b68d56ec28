"""The command `learner runs`."""

import json
import subprocess
import sys

import pytest
from support.runs import a_run, point

from farflung.common.process.errors import ConfigurationError
from farflung.learner.main import command

WITHOUT_TORCH = """\
import sys
from farflung.learner.main import command
code = command(["runs", sys.argv[1]])
heavy = sorted({"torch", "numpy", "gymnasium", "onnxruntime", "rich.console"} & set(sys.modules))
sys.exit(f"it imported {heavy}" if heavy else code)
"""


def test_runs_lists_a_folder(tmp_path, capsys):
    """A line for each run under a heading, the newest last."""
    a_run(tmp_path, "one", point(10, 4.0)).finish("solved")
    a_run(tmp_path, "two")
    assert command(["runs", str(tmp_path)]) == 0
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("run  state")
    assert [line.split()[0] for line in lines] == ["one", "two"]


def test_runs_compares_named_ones(tmp_path, capsys):
    """Only settings that differ are shown."""
    a_run(tmp_path, "one", rate=0.1)
    a_run(tmp_path, "two", rate=0.2)
    assert command(["runs", str(tmp_path), "one", "two"]) == 0
    said = capsys.readouterr().out
    assert "dqn.learning-rate  0.1" in said
    assert "seed" not in said


def test_runs_prints_one_line_of_json(tmp_path, capsys):
    """Differences are there if runs are named."""
    a_run(tmp_path, "one", rate=0.1)
    a_run(tmp_path, "two", rate=0.2)
    command(["runs", str(tmp_path), "--json"])
    assert [run["name"] for run in json.loads(capsys.readouterr().out)["runs"]] == ["one", "two"]
    command(["runs", str(tmp_path), "*", "--json"])
    differ = json.loads(capsys.readouterr().out)["differences"]
    assert differ == {"dqn.learning-rate": [0.1, 0.2]}


def test_runs_says_that_a_folder_is_empty_or_missing(tmp_path, capsys):
    """An empty screen would leave a reader in doubt."""
    assert command(["runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path} has no runs\n"
    with pytest.raises(ConfigurationError, match="--run-dir"):
        command(["runs", str(tmp_path / "none")])


@pytest.mark.slow
def test_runs_imports_nothing_heavy(tmp_path):
    """Hundreds of runs are listed in the time that torch alone would take."""
    a_run(tmp_path, "one", point(10, 4.0))
    words = [sys.executable, "-c", WITHOUT_TORCH, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
