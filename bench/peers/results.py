"""Figures of a row as they are kept, printed, and merged with those of other runs."""

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import _verdict
from bench.peers.rows import Row
from bench.peers.turns import Found

Kept = dict[str, Any]


def of_row(row: Row, found: Mapping[str, Found], where: Kept) -> Kept:
    """Return a row as JSON has it; `where` stands at each arm, for arms are measured again."""
    arms = {label: of_arm(one, found) | where for label, one in found.items()}
    limits = next((one.limits for one in found.values() if one.limits), [])
    return {
        "title": row.title,
        "work": row.work,
        "unit": row.unit,
        "falls": row.falls,
        **({"limit": row.limit, "limit_value": _verdict.spread(limits)} if limits else {}),
        "arms": arms,
    }


def of_arm(one: Found, found: Mapping[str, Found]) -> Kept:
    """Return median and range of an arm, its ratio to the limit of the same rounds, or a reason."""
    said: Kept = {"version": one.version} if one.version else {}
    values = [value for value in one.values if value is not None]
    if one.missing or not values:
        return said | {"missing": one.missing or one.failures[0]}
    said |= _verdict.spread(values) | {"rounds": len(one.values)}
    if one.failures:
        said["failures"] = one.failures
    own = one.limits or next((each.limits for each in found.values() if each.limits), [])
    if own and len(own) == len(one.values):
        pairs = [(v, limit) for v, limit in zip(one.values, own, strict=True) if v is not None]
        said["of_limit"] = round(statistics.median(v / limit for v, limit in pairs), 3)
    return said


def merge(path: Path, part: Kept) -> None:
    """Put rows, and arms of rows, into the file in the place of the same ones."""
    kept: Kept = json.loads(path.read_text()) if path.exists() else {"rows": {}, "own": {}}
    for name, row in part.get("rows", {}).items():
        before = kept["rows"].get(name, {}).get("arms", {})
        kept["rows"][name] = row | {"arms": before | row["arms"]}
    kept["own"] |= part.get("own", {})
    path.write_text(json.dumps(kept, indent=1) + "\n")


def table(name: str, row: Kept) -> str:
    """Return a row's arms, the best first."""
    lines = [f"{name}: {row['work']}, {row['unit']}"]
    if "limit" in row:
        lines.append(f"  limit: {row['limit']} {line(row['limit_value'])}")
    measured = {label: arm for label, arm in row["arms"].items() if "median" in arm}
    ordered = sorted(measured, key=lambda label: measured[label]["median"] * sign(row))
    for label in (*ordered, *(label for label in row["arms"] if label not in measured)):
        arm = row["arms"][label]
        lines.append(f"  {label:42} {line(arm)} {arm.get('version', '')}")
    return "\n".join(lines)


def sign(row: Kept) -> int:
    """Return 1 where less is better, else -1."""
    return 1 if row["falls"] else -1


def line(arm: Kept) -> str:
    """Return median and range, or the reason for none."""
    if "missing" in arm:
        return f"– {arm['missing']}"
    low, high = arm["range"]
    ratio = f" = {arm['of_limit']:g} of the limit" if "of_limit" in arm else ""
    failed = f" ({len(arm['failures'])} failed: {arm['failures'][0]})" if "failures" in arm else ""
    return f"{arm['median']:,g} [{low:,g}, {high:,g}]{ratio}{failed}"
