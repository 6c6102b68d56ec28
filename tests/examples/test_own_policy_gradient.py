"""The policy gradient of docs/algorithms.md: its text, its imports, and the return it reaches."""

import ast
import re
import sys
from pathlib import Path

import pytest

import farflung
from farflung import algorithms

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "own_policy_gradient.py"


def test_the_page_has_the_whole_program():
    """A reader who copies the block has the file that is tested here."""
    (block, *_) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "algorithms.md").read_text(), re.DOTALL
    )
    assert block == EXAMPLE.read_text()


@pytest.mark.parametrize("name", ["own_policy_gradient", "own_algorithm"])
def test_examples_need_one_public_place(name):
    """Of ours they import `farflung.algorithms` alone, and it says so in its documentation."""
    tree = ast.parse((ROOT / "examples" / f"{name}.py").read_text())
    ours = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("farflung")
    ]
    assert [node.module for node in ours] == ["farflung.algorithms"]
    assert all(hasattr(algorithms, alias.name) for node in ours for alias in node.names)


def test_every_public_name_is_in_the_page():
    """A name that no text mentions cannot be found."""
    text = (ROOT / "docs" / "algorithms.md").read_text()
    tree = ast.parse((ROOT / "farflung" / "algorithms.py").read_text())
    names = [
        alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.slow
@pytest.mark.faults
def test_policy_gradient_reaches_the_stated_return(tmp_path, monkeypatch):
    """With one seed, in one process: 475 on CartPole within 60,000 steps."""
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    try:
        result = farflung.train(
            "CartPole-v1",
            "own_policy_gradient:Reinforce",
            mode="sequential",
            steps=60_000,
            until="evaluation >= 475",
            evaluate_every=5_000,
            seed=0,
            run_dir=tmp_path,
        )
    finally:
        sys.modules.pop("own_policy_gradient", None)
    assert result.evaluation.mean >= 475
