"""Every decoder that is fuzzed."""

from fuzz import conversation, messages, playing, stored

TARGETS = {
    target.name: target
    for target in (
        *messages.TARGETS,
        *conversation.TARGETS,
        *stored.TARGETS,
        *playing.TARGETS,
    )
}
