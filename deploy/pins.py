"""Write the lists that images install from: each package with its version and its wheels' hashes.

    python deploy/pins.py            ask pip again, for the running Python and each machine
    python deploy/pins.py --check    compare the lists with pyproject.toml and constraints.txt

pip resolves with this machine's settings. It must find torch twice: the build for CPUs (in a folder
or index that PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL names) and the one with CUDA of its own index.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "deploy/pins"
OURS = "farflung"
HEAD = """\
# Written by `make pins` from pyproject.toml and constraints.txt.
# Each hash is that of a wheel for Python {python} on Linux: {machines}.
"""
PIN = re.compile(
    r"^([\w.-]+)==(\S+) \\\n((?:    --hash=\S+(?: \\)?\n)+)    # via (.+)$", re.MULTILINE
)
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})\b")


@dataclass(frozen=True)
class List:
    """What a list is for: extras of pyproject.toml, or the build, and the torch of each machine."""

    extras: tuple[str, ...]
    torch: Mapping[str, str] = field(default_factory=lambda: {"x86_64": "", "aarch64": ""})


# `===` compares the whole version, so neither build of torch is taken for the other one.
LISTS = {
    "build": List(()),
    "actor": List(("actor",)),
    "learner": List(("learner",), {"x86_64": "torch==={}+cpu"}),
    "learner-cuda": List(("learner",), {"x86_64": "torch==={}", "aarch64": "torch==={}"}),
}


@dataclass
class Pin:
    """A package of a list."""

    version: str
    hashes: set[str] = field(default_factory=set)
    via: set[str] = field(default_factory=set)

    @property
    def public_version(self) -> str:
        """The version without the part that names a build, as in `2.13.0+cpu`."""
        return self.version.partition("+")[0]


def wanted(project: Mapping[str, Any], extras: tuple[str, ...]) -> list[str]:
    """Return the requirements of pyproject.toml for extras, or for the build without any."""
    if not extras:
        return list(project["build-system"]["requires"])
    found, waiting = list(project["project"]["dependencies"]), list(extras)
    for extra in waiting:  # grows in the loop: an extra may name other extras
        for requirement in project["project"]["optional-dependencies"][extra]:
            own = requirement.removeprefix(f"{OURS}[")
            if own == requirement:
                found.append(requirement)
            else:
                waiting.append(own.removesuffix("]"))
    return found


def read(text: str) -> dict[str, Pin]:
    """Read a list as `write` wrote it."""
    return {
        name: Pin(version, set(HASH.findall(hashes)), set(via.split(", ")))
        for name, version, hashes, via in PIN.findall(text)
    }


def constraints(text: str) -> dict[str, str]:
    """Return the versions of constraints.txt by canonical name."""
    pinned = re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pinned}


def disagreements(
    project: Mapping[str, Any], versions: Mapping[str, str], lists: Mapping[str, str]
) -> Iterator[str]:
    """Say where the lists do not follow from pyproject.toml and constraints.txt."""
    for name, kind in LISTS.items():
        pins = read(lists[name])
        if len(pins) != len(re.findall(r"==", lists[name])):
            yield f"{name}: a line is not as `make pins` writes it"
        asked: dict[str, Requirement] = {
            canonicalize_name(each.name): each
            for each in map(Requirement, wanted(project, kind.extras))
        }
        direct = {package for package, pin in pins.items() if OURS in pin.via}
        for package in sorted(direct ^ set(asked)):
            place = "the list" if package in direct else "pyproject.toml"
            yield f"{name}: {package} is only in {place}"
        for package in sorted(direct & set(asked)):
            if not asked[package].specifier.contains(pins[package].version):
                yield f"{name}: {package} {pins[package].version} is not {asked[package]}"
        for package, pin in pins.items():
            if (
                package not in versions and name != "learner-cuda"
            ):  # CUDA comes with torch's own pins
                yield f"{name}: {package} is not in constraints.txt"
            elif versions.get(package, pin.version) not in (pin.version, pin.public_version):
                yield f"{name}: {package} {pin.version} is {versions[package]} in constraints.txt"
            if not pin.via <= {OURS, *pins}:
                yield f"{name}: {package} is for {', '.join(sorted(pin.via))}, which are not there"


def resolve(requirements: list[str], machine: str, torch: str) -> list[dict[str, Any]]:
    """Return what pip would install on a machine, wheels only."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 4, -1)]
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(  # noqa: S603
            [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
            + ["--report", f"{folder}/report", "--target", folder, "--only-binary", ":all:"]
            + [word for tag in (*tags, f"manylinux2014_{machine}") for word in ("--platform", tag)]
            + [
                "--constraint",
                str(ROOT / "constraints.txt"),
                *requirements,
                *([torch] if torch else []),
            ],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        if ended.returncode:
            sys.exit(ended.stderr)
        return list(json.loads(Path(folder, "report").read_text())["install"])


def add(pins: dict[str, Pin], installed: list[dict[str, Any]], direct: set[str]) -> None:
    """Add what pip would install on one more machine."""
    for each in installed:
        package = canonicalize_name(each["metadata"]["name"])
        pin = pins.setdefault(package, Pin(each["metadata"]["version"]))
        pin.hashes.add(each["download_info"]["archive_info"]["hashes"]["sha256"])
        pin.via |= {OURS} if package in direct else set()
    names = {canonicalize_name(each["metadata"]["name"]): each for each in installed}
    for package, each in names.items():
        for requirement in map(Requirement, each["metadata"].get("requires_dist", ())):
            needed = canonicalize_name(requirement.name)
            if needed in names and (
                not requirement.marker or requirement.marker.evaluate({"extra": ""})
            ):
                pins[needed].via.add(package)
    for needed in names:  # an extra that a package asks for
        if not pins[needed].via:
            pins[needed].via |= {
                package
                for package, each in names.items()
                for requirement in map(Requirement, each["metadata"].get("requires_dist", ()))
                if canonicalize_name(requirement.name) == needed
            }


def write(name: str, project: Mapping[str, Any], torch_version: str) -> str:
    """Return a list's text as pip resolves it now."""
    kind, pins = LISTS[name], dict[str, Pin]()
    requirements = wanted(project, kind.extras)
    direct: set[str] = {canonicalize_name(Requirement(each).name) for each in requirements}
    for machine, torch in kind.torch.items():
        add(pins, resolve(requirements, machine, torch.format(torch_version)), direct)
    python = ".".join(map(str, sys.version_info[:2]))
    lines = [HEAD.format(python=python, machines=", ".join(kind.torch))]
    for package, pin in sorted(pins.items()):
        hashes = " \\\n".join(f"    --hash=sha256:{each}" for each in sorted(pin.hashes))
        lines.append(
            f"{package}=={pin.version} \\\n{hashes}\n    # via {', '.join(sorted(pin.via))}\n"
        )
    return "".join(lines)


def main() -> int:
    """Write the lists, or compare them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    checked = parser.parse_args().check
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    versions = constraints((ROOT / "constraints.txt").read_text())
    if not checked:
        for name in LISTS:
            (FOLDER / f"{name}.txt").write_text(write(name, project, versions["torch"]))
    lists = {name: (FOLDER / f"{name}.txt").read_text() for name in LISTS}
    found = list(disagreements(project, versions, lists))
    sys.stdout.writelines(f"deploy/pins: {each}; run `make pins`\n" for each in found)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
