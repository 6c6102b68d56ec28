"""The model card of an exported policy: README.md as the Hugging Face Hub reads it."""

import json

from farflung.common import heads
from farflung.common.data.spec import Spec, column_name
from farflung.common.data.statistics import Interval, confidence
from farflung.learner.policies.exported import MASK, Exported

MARK = "library_name: farflung"  # of a card of ours, which may be replaced
CARD = "README.md"


def card(facts: Exported, onnx: str, tensors: str) -> str:
    """Return the card of a policy that lies beside it in these files; a name may be empty."""
    spec, interval = facts.spec, confidence(facts.returns) if facts.returns else None
    parts = [
        _header(facts, interval),
        f"# {spec.world.environment}, trained with Farflung\n",
        _facts(facts, interval),
    ]
    if onnx:
        parts += [_onnx(spec, onnx)]
    if tensors:
        parts += [_tensors(spec, tensors)]
    return "\n".join(parts)


def _header(facts: Exported, interval: Interval | None) -> str:
    """Return the YAML in front of the card. JSON texts are YAML."""
    name = json.dumps(facts.spec.world.environment)
    lines = ["---", MARK, "tags:", "- reinforcement-learning", "- gymnasium", f"- {name}"]
    if interval is not None:
        shown = f"{interval.mean:.2f}"
        shown += f" +/- {interval.half:.2f}" if len(facts.returns) > 1 else ""
        lines += [
            "model-index:",
            f"- name: {json.dumps(facts.spec.run)}",
            "  results:",
            "  - task: {type: reinforcement-learning, name: reinforcement-learning}",
            f"    dataset: {{name: {name}, type: {name}}}",
            f'    metrics: [{{type: mean_reward, name: mean_reward, value: "{shown}"}}]',
        ]
    return "\n".join([*lines, "---", ""])


def _facts(facts: Exported, interval: Interval | None) -> str:
    spec, world = facts.spec, facts.spec.world
    wrappers = ", ".join(name for name, _ in world.wrappers) or "none"
    episodes = len(facts.returns)
    found = "none" if interval is None else str(interval)
    found += f" (95 %) over {episodes} episodes" if episodes > 1 else ""
    rows = {
        "environment": f"`{world.environment}`, arguments `{json.dumps(world.arguments)}`",
        "wrappers": wrappers,
        "frames in an observation": str(spec.stack),
        "checkpoint": f"{facts.checkpoint}: version {facts.version}, {facts.steps:,} steps, "
        f"{facts.updates:,} updates",
        "greedy evaluation while it trained": found,
        "run": f"`{spec.run}`, Farflung {facts.release}",
    }
    return "".join(f"- {name}: {value}\n" for name, value in rows.items())


def _onnx(spec: Spec, name: str) -> str:
    """Return ten lines that act."""
    feeds = []
    for key, space in spec.observation.items():
        shown = f"observation[{json.dumps(key)}]" if key else "observation"
        shape = "".join(f", {side}" for side in space.shape)
        frames = f", {spec.stack}" if spec.stack > 1 else ""
        comment = f"  # [1{frames}{shape}]"
        value = f"np.asarray({shown}, np.{'bool_' if space.dtype == 'bool' else space.dtype})[None]"
        feeds.append(f"    {json.dumps(column_name(key))}: {value},{comment}")
    shown = "observation"
    if heads.masked(spec):
        mask, actions = json.dumps(MASK), sum(spec.action.sizes)
        feeds.append(f"    {mask}: np.asarray(info[{mask}], np.bool_)[None],  # [1, {actions}]")
        shown = f"observation, mask=info[{mask}]"
    stacked = (
        f"An observation is the newest {spec.stack} frames, oldest first; an episode begins with\n"
        "its first frame repeated.\n\n"
        if spec.stack > 1
        else ""
    )
    lines = "\n".join(feeds)
    return f"""\
## Act
{stacked}```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{name}")
action = session.run(["action"], {{
{lines}
}})[0][0]
```
With Farflung itself: `farflung.load("{name}").act({shown})`.
"""


def _tensors(spec: Spec, name: str) -> str:
    return (
        f"## Weights\n`{name}` has the {len(spec.graph.weights)} tensors of the policy's torch "
        "module under its own names; its\nmetadata has the spec under the key `farflung`.\n"
    )
