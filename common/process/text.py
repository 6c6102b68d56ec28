"""Texts of other programs, made fit for a log, a terminal, a document and a sentence of ours.

What came over a network, or out of an environment, may hold escapes that steer a terminal, marks
that turn the direction of writing, line ends, or megabytes. `printable` leaves one line of bounded
length, and `indented` lines of which all but the first are indented. A line of a log begins with
its time, and a sentence of an error with its program, so that no other text can pass for either.
Every line of a log, every `FarflungError` and every status document passes through here.
"""

LETTERS = 2000  # of one line
LINES = 100  # of one text
INDENT = "  "


def printable(text: str, letters: int = LETTERS) -> str:
    """Return a text of at most so many letters, with a space for each that is not printable."""
    if len(text) > letters:
        text = text[: letters - 1] + "…"
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else " " for letter in text)


def indented(text: str) -> str:
    """Return the lines of a text, each printable, with all but the first indented.

    Of very many the last are kept, because a traceback ends with its error.
    """
    if len(text) <= LETTERS and text.isprintable():
        return text
    first, *others = text.splitlines() or [""]
    if len(others) > LINES:
        left_out = len(others) - LINES + 1
        others = [f"({left_out} lines are left out)", *others[left_out:]]
    lines = [line if line.startswith(INDENT) else INDENT + line for line in others]
    return "\n".join(map(printable, (first, *lines)))
