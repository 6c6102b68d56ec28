import sys
from pathlib import Path

import pytest

from farflung.common.process import plugins
from farflung.common.process.errors import ConfigurationError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with a module in it."""
    (tmp_path / "my_plugin.py").write_text(
        "import sys\nsys.my_plugin_was_imported = True\nclass Mine: ...\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_plugin", raising=False)
    monkeypatch.setattr(sys, "my_plugin_was_imported", False, raising=False)
    return tmp_path


def test_plugin_in_the_current_folder_is_found_last(folder: Path) -> None:
    """The current folder is searched last, so nothing in it hides a package of ours."""
    (folder / "common").mkdir()
    plugins.import_packages(["my_plugin"])
    assert vars(sys)["my_plugin_was_imported"] is True
    assert sys.path[-1] == str(folder)
    assert plugins.find("my_plugin:Mine").__name__ == "Mine"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("my_plugin:Other", "my_plugin has no Other"),
        ("no_such:Thing", "cannot import no_such.*Install it, or put it in this folder"),
        ("ale_py:Thing", r"cannot import ale_py.*pip install 'farflung\[atari\]'$"),
    ],
)
def test_missing_plugin_is_named(
    folder: Path, name: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing module or name is one sentence."""
    monkeypatch.setitem(sys.modules, "ale_py", None)  # as if it were not installed
    with pytest.raises(ConfigurationError, match=says):
        plugins.find(name)
