"""The `farflung` command and `python -m farflung`: `farflung learner|actor|broker ...`."""

import sys
from importlib import import_module

ROLES = ("learner", "actor", "broker")
USAGE = f"usage: farflung {{{','.join(ROLES)}}} [OPTIONS]; each takes --help"


def main() -> None:
    """Run the role that the first argument names."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.stdout.write(f"{USAGE}\n")
        sys.exit(0 if len(sys.argv) > 1 else 64)
    role = sys.argv.pop(1)
    if role not in ROLES:
        sys.stderr.write(f"farflung: unknown role {role!r}; {USAGE}\n")
        sys.exit(64)
    sys.argv[0] = role
    import_module(f"farflung.{role}.main").main()


if __name__ == "__main__":
    main()
