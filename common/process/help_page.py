"""The page that `--help` prints: descriptions that flow, and examples at its end."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions


def examples_text(examples: Mapping[str, str]) -> str:
    """Return command lines with their effects, for the end of the help."""
    if not examples:
        return ""
    lines = (f"  # {effect}\n  {words}" for words, effect in examples.items())
    return "\n".join(("Examples:", *lines))


class FlowingHelp:
    """Panels of flags. The terminal breaks their descriptions, not the lines of a docstring."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """Print a panel."""
        from cyclopts.help.formatters import DefaultFormatter  # that only help needs
        from rich.text import Text

        for entry in panel.entries:
            text = getattr(entry.description, "primary_renderable", None)
            if isinstance(text, Text):
                text.plain = " ".join(text.plain.split())
        DefaultFormatter()(console, options, panel)

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: object) -> None:
        """Print the line that begins with the word Usage."""
        from cyclopts.help.formatters import DefaultFormatter

        DefaultFormatter().render_usage(console, options, usage)
