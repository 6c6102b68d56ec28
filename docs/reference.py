"""Write docs/reference.md from the docstrings of the public classes and functions."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import farflung
from farflung.actor.acting.loaded import LoadedPolicy

PAGE = Path(__file__).parent / "reference.md"
WIDTH = 100
CLASSES = ("Callback", "RunView", "Episode", "Evaluation", "Result")
SESSIONS = ("ActorSession", "AsyncActorSession")

HEAD = """\
# Reference

The names of `import farflung`, from their docstrings (`python docs/write.py` writes this page). The
import itself loads nothing heavy. Errors of our own are `farflung.FarflungError`. The names for an
algorithm of your own are in `farflung.algorithms`, which imports torch:
[algorithms](algorithms.md#from-an-equation-to-an-agent).
"""

SETTINGS = """\
The keywords of `farflung.train` are the flags that `learner --help` lists, with `_` for `-`, and
`imports` for `--import`. A misspelt one is refused, and the nearest is suggested.
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(page())


def page() -> str:
    """Return the page."""
    parts = [HEAD, "## Train and load", *map(function, (farflung.train, farflung.load))]
    parts += ["## Callbacks and results", *(of_class(getattr(farflung, name)) for name in CLASSES)]
    parts += ["## Policies", of_class(LoadedPolicy), "## Sessions"]
    parts += [of_class(getattr(farflung, name)) for name in SESSIONS]
    parts += ["## Settings", SETTINGS]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def function(found: Any) -> str:
    """Return a function with its signature and docstring."""
    return f"### farflung.{found.__name__}\n\n{signature(found)}\n\n{words(found)}"


def of_class(found: type) -> str:
    """Return a class: docstring, fields, and its public methods and properties."""
    public = found.__name__ in farflung.__all__
    parts = [f"### {'farflung.' if public else ''}{found.__name__}", words(found)]
    if found.__name__ in SESSIONS:
        parts.insert(1, signature(found.__init__, found.__name__))
    if described := list(attributes(found)):
        parts.append("\n".join(described))
    parts += [member(name, each) for name, each in members(found)]
    return "\n\n".join(parts)


def member(name: str, found: Any) -> str:
    """Return a method or property."""
    if isinstance(found, property):
        return item(f"`{name}`", inspect.getdoc(found) or "")
    return f"{signature(found, name)}\n\n{words(found)}"


def members(found: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class and of our classes above it."""
    seen: set[str] = set()
    for each in found.__mro__:
        if not each.__module__.startswith("farflung"):
            continue
        for name, value in vars(each).items():
            documented = isinstance(value, property) or inspect.isfunction(value)
            if documented and not name.startswith("_") and name not in seen:
                seen.add(name)
                yield name, value


def attributes(found: type) -> Iterator[str]:
    """Yield the fields of a class with the comments that stand beside them in the source."""
    source = textwrap.dedent(inspect.getsource(found))
    lines = source.splitlines()
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    for node, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        text = lines[node.lineno - 1].partition("  # ")[2]
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            text = str(following.value.value)
        if node.target.id != "controls":
            yield item(f"`{node.target.id}` ({ast.unparse(node.annotation)})", text)


def signature(found: Any, name: str = "") -> str:
    """Return a signature: in one line if it fits, else as a block of code."""
    node = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = node.args
    arguments.args = [each for each in arguments.args if each.arg != "self"]
    for each in (*arguments.args, *arguments.kwonlyargs, arguments.kwarg):
        if each is not None and each.annotation is not None:
            each.annotation = unquoted(each.annotation)
    returns = ast.unparse(unquoted(node.returns)) if node.returns else "None"
    keyword = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    text = f"{keyword}{name or node.name}({ast.unparse(arguments)})"
    text += f" -> {returns}" if returns != "None" else ""
    if len(text) < WIDTH - len("**``**"):
        return f"**`{text}`**"
    lines = textwrap.wrap(
        text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(["```text", *lines, "```"])


def unquoted(annotation: ast.expr) -> ast.expr:
    """Return a type without the quotes that put off its import."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return ast.parse(annotation.value, mode="eval").body
    return annotation


def words(found: Any) -> str:
    """Return a docstring."""
    return inspect.getdoc(found) or ""


def item(name: str, text: str) -> str:
    """Return an item of a list in lines of bounded width."""
    text = f"- {name}: {' '.join(text.split())}" if text else f"- {name}"
    return textwrap.fill(
        text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    main()
