"""Every decoder that is fuzzed."""

from fuzz import conversation, messages, stored

TARGETS = {
    target.name: target for target in (*messages.TARGETS, *conversation.TARGETS, *stored.TARGETS)
}
