"""The subcommand `learner presets`. Without torch."""

import sys


def presets(name: str = "", /) -> int:
    """List the settings that `learner --preset NAME` uses, with what they reached; or print some.

    Parameters
    ----------
    name
        The preset to print, with the figures that it reached; a file for --config, too.
    """
    from farflung.learner.presets import preset

    sys.stdout.write(preset.find(name).text if name else listing())
    return 0


def listing() -> str:
    """Return all presets with environment, algorithm, and what they reached."""
    from farflung.learner.presets import preset

    found = [preset.find(name) for name in preset.names()]
    rows = [("preset", "environment", "algorithm", "reached")]
    rows += [(p.name, p.settings["env"], p.settings["algorithm"], p.about) for p in found]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"
