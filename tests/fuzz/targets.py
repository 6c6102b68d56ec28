"""Every decoder that is fuzzed."""

from fuzz import messages, stored

TARGETS = {target.name: target for target in (*messages.TARGETS, *stored.TARGETS)}
