"""The extras of this package that bring worlds: a refusal names the one to install."""

import re

# By a pattern of ids that are known only after the import of a package.
IMPORTED = {
    r"ALE/\S+|\w+(NoFrameskip|Deterministic)-v\d": ("atari", "ale_py"),
}
# By a word of Gymnasium's sentence about a package that is missing; the first that occurs counts.
NAMED = {
    "box2d": "box2d",
    "mujoco": "mujoco",
    "minatar": "minatar",
    "opencv": "atari",
    "cv2": "atari",
    "pygame": "video",
}


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'farflung[{extra}]'"


def importing(environment: str) -> str:
    """Return the way to an environment that is not registered yet; empty if none is known."""
    for pattern, (extra, package) in IMPORTED.items():
        if re.fullmatch(pattern, environment):
            return f"{install(extra)}, and pass --import {package}, here and on each actor"
    return ""


def installing(sentence: str) -> str:
    """Return the command for a missing package that a sentence names, or else the sentence."""
    lower = sentence.lower()
    found = [extra for word, extra in NAMED.items() if word in lower]
    return install(found[0]) if found else sentence
