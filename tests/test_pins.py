"""The lists that images install from follow from pyproject.toml, and a bill names what is there."""

import importlib.util
import json
import re
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def script(name: str) -> ModuleType:
    """Import a script of deploy/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"deploy/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pins, sbom = script("pins"), script("sbom")


def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def lists() -> dict[str, str]:
    """Return the lists."""
    return {name: (ROOT / f"deploy/pins/{name}.txt").read_text() for name in pins.LISTS}


def versions() -> dict[str, str]:
    """Return the versions of constraints.txt."""
    found: dict[str, str] = pins.constraints((ROOT / "constraints.txt").read_text())
    return found


def test_pins_follow_from_pyproject_and_constraints() -> None:
    """`make pins` writes the lists again."""
    assert list(pins.disagreements(project(), versions(), lists())) == []


def test_pins_that_disagree_are_found() -> None:
    """A requirement that is new, gone or of another version, and a line that does not parse."""
    changed, other = project(), versions()
    changed["project"]["dependencies"].remove("psutil>=6")
    changed["project"]["dependencies"].append("pyzmq>=27.4,<28")
    changed["project"]["optional-dependencies"]["learner"].append("zstandard")
    del other["mdurl"]
    other["rich"] = "14.9.9"
    without_hash = {**lists(), "build": "setuptools==84.2.1\n"}
    found = list(pins.disagreements(changed, other, without_hash))
    assert "actor: psutil is only in the list" in found
    assert "learner: zstandard is only in pyproject.toml" in found
    assert any(re.fullmatch(r"actor: pyzmq \S+ is not pyzmq<28,>=27.4", each) for each in found)
    assert "learner: mdurl is not in constraints.txt" in found
    assert "actor: rich 15.0.0 is 14.9.9 in constraints.txt" in found
    assert "build: a line is not as `make pins` writes it" in found
    assert not any(each.startswith("actor: zstandard") for each in found)


@pytest.mark.parametrize("name", ["build", "actor", "learner", "learner-cuda"])
def test_each_pin_has_hashes_and_no_list_names_an_index(name: str) -> None:
    """A wheel per machine at most, and one that serves all machines at least."""
    text = lists()[name]
    read = pins.read(text)
    assert len(read) == text.count("==") > 0
    for package, pin in read.items():
        assert 1 <= len(pin.hashes) <= len(pins.LISTS[name].torch), package
    assert "://" not in text
    assert "index" not in text


def test_torch_of_a_list_is_the_build_that_it_names() -> None:
    """The actor's list has none; the two of learners share no wheel of torch."""
    read = {name: pins.read(text) for name, text in lists().items()}
    assert "torch" not in read["actor"]
    light, heavy = read["learner"]["torch"], read["learner-cuda"]["torch"]
    assert (light.version, heavy.version) == ("2.13.0+cpu", "2.13.0")
    assert not light.hashes & heavy.hashes
    assert not any(name.startswith(("nvidia", "cuda")) for name in read["learner"])
    assert any(name.startswith("nvidia") for name in read["learner-cuda"])


def test_dockerfile_installs_wheels_by_hash_alone() -> None:
    """A package that is not from a list is ours: it is installed without index or dependency."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    commands = re.findall(r"pip [^&;\n]*", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    installs = [each for each in commands if re.search(r" (install|wheel|download) ", each)]
    assert len(installs) == 5
    for each in installs:
        by_hash = "--require-hashes" in each and "--only-binary :all:" in each
        assert by_hash != ("--no-index" in each and "--no-deps" in each), each


def test_compose_file_of_a_gpu_builds_from_the_list_with_cuda() -> None:
    """Alone, `docker-compose.yml` tries the list for CPUs first."""
    text = (ROOT / "Dockerfile").read_text()
    [order] = re.findall(r'^ARG PINS="(.*)"$', text, re.MULTILINE)
    assert order.split() == ["learner", "learner-cuda"]
    gpu = yaml.safe_load((ROOT / "docker-compose.gpu.yml").read_text())["services"]["learner"]
    assert gpu["build"]["args"] == {"PINS": "learner-cuda"}


def test_bill_lists_every_python_package(tmp_path: Path) -> None:
    """Each with its version, once, in an order of its own; and ours as what the bill is of."""
    places = tmp_path / "farflung/lib/python3.11/site-packages"
    places.parent.mkdir(parents=True)
    [folder] = {str(each.locate_file("")) for each in distributions() if each.name == "numpy"}
    places.symlink_to(folder)
    made = sbom.bill("0.1.0", sbom.python_packages(tmp_path))
    json.dumps(made)
    assert made["metadata"]["component"]["purl"] == "pkg:pypi/farflung@0.1.0"
    there = {
        f"pkg:pypi/{re.sub(r'[-_.]+', '-', each.name).lower()}@{each.version.replace('+', '%2B')}"
        for each in distributions(path=[folder])
    }
    listed = [each["purl"] for each in made["components"]]
    assert sorted(there - {"pkg:pypi/farflung@0.1.0"}) == listed


def test_bill_lists_only_debian_packages_that_are_installed() -> None:
    """A removed package that left its settings is not there."""
    status = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Version: of a description

Package: gone
Status: deinstall ok config-files
Version: 1.0
"""
    [libc] = sbom.debian_packages(status)
    assert libc["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10"
    assert libc["version"] == "2.36-9+deb12u10"
