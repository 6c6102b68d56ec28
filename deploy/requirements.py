"""Print the requirements of extras in pyproject.toml, a line each.

An image installs them before our code, which changes more often.
"""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras, wanted = list(sys.argv[1:]), list(project["dependencies"])
for extra in extras:  # grows in the loop: an extra may name other extras
    for requirement in project["optional-dependencies"][extra]:
        own = requirement.removeprefix(f"{project['name']}[")
        if own == requirement:
            wanted.append(requirement)
        else:
            extras.append(own.removesuffix("]"))
sys.stdout.write("\n".join(wanted) + "\n")
