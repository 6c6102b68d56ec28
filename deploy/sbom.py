"""Print a bill of materials of the image that runs this, as CycloneDX 1.6 in JSON.

It lists Python, every Python package and every Debian package, with the versions that are
installed. It has no date and no random number: the same content has the same bill.
"""

import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions, version
from pathlib import Path
from urllib.parse import quote

ROOT = Path("/")
OURS = "farflung"
PLACES = (  # of Python packages: ours, those of an official Python image, those of Debian
    "farflung/lib/python3*/site-packages",
    "usr/local/lib/python3*/site-packages",
    "usr/local/lib/python3*/dist-packages",
    "usr/lib/python3/dist-packages",
)
DEBIAN = "var/lib/dpkg/status"

Component = dict[str, object]


def component(kind: str, name: str, release: str, **more: object) -> Component:
    """Return a component with its package URL, which is also its reference."""
    url = f"pkg:{kind}/{name}@{quote(release, safe='.~-')}"
    return {"type": "library", "bom-ref": url, "name": name, "version": release, "purl": url} | more


def license_of(package: Distribution) -> dict[str, object]:
    """Return the licence as a package declares it; empty without one."""
    declared = package.metadata.json
    if expression := declared.get("license_expression"):
        return {"licenses": [{"expression": expression}]}
    name = str(declared.get("license", ""))
    return {"licenses": [{"license": {"name": name}}]} if name and "\n" not in name else {}


def python_packages(root: Path) -> Iterator[Component]:
    """Yield every installed Python package but ours."""
    folders = [str(folder) for place in PLACES for folder in sorted(root.glob(place))]
    for package in distributions(path=folders):
        name = re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower()
        if name != OURS:
            place = str(package.locate_file(""))
            where = {"evidence": {"occurrences": [{"location": place}]}}
            yield component("pypi", name, package.version, **license_of(package), **where)


def debian_packages(status: str) -> Iterator[Component]:
    """Yield every installed Debian package."""
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, release = fields["Package"], fields["Version"]
            yield component("deb/debian", name, release, group="debian")


def bill(release: str, components: Iterable[Component]) -> dict[str, object]:
    """Return the document; a package that is there twice in one version is one component."""
    by_reference = {str(each["bom-ref"]): each for each in components}
    image = component("pypi", OURS, release) | {"type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": image},
        "components": [by_reference[each] for each in sorted(by_reference)],
    }


def main() -> None:
    """Print the bill of this image."""
    status = (ROOT / DEBIAN).read_text() if (ROOT / DEBIAN).exists() else ""
    found = [
        component("generic", "python", platform.python_version()),
        *python_packages(ROOT),
        *debian_packages(status),
    ]
    sys.stdout.write(json.dumps(bill(version(OURS), found), indent=1) + "\n")


if __name__ == "__main__":
    main()
