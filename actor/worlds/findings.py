"""The findings of a check of an environment, or of an algorithm in one."""

from dataclasses import dataclass, field
from typing import Final, Literal

ERROR: Final = "error"
WARNING: Final = "warning"
SLOW_S = 1.0  # of a step: the learner would hear of the actor late


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong (error) or suspicious (warning)."""

    severity: Literal["error", "warning"]
    text: str


@dataclass
class Checked:
    """The findings about an environment or an algorithm, and what was seen of it."""

    environment: str
    algorithm: str = ""  # that was checked; else the environment was
    updates: int = 0
    shown: list[str] = field(default_factory=list)  # what is right, a sentence each
    findings: list[Finding] = field(default_factory=list)
    observation: str = ""
    action: str = ""
    steps: int = 0
    episodes: int = 0
    step_us: float | None = None  # median

    @property
    def errors(self) -> int:
        """Return how many findings keep it from being played."""
        return sum(finding.severity == ERROR for finding in self.findings)

    def add(self, severity: Literal["error", "warning"], text: str) -> None:
        """Add a finding, each text once."""
        found = Finding(severity, " ".join(text.split()))
        if found not in self.findings:
            self.findings.append(found)
