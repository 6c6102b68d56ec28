"""A run is redone from its journal: parcels and markers determine all actions of a round."""

from collections import deque

from support.learners import CoreAndEndpoint, a_config, a_learner
from support.sequential import collectors, play

from farflung.common.protocol.parcels import ParcelCodec
from farflung.learner.storage.journal import payloads, segments
from farflung.learner.storage.journal.journal import Journal
from farflung.learner.storage.journal.payloads import Marker
from farflung.learner.storage.journal.record import Kind
from farflung.learner.storage.journal.totals import JournalTotals


class InTurnJournal(Journal):
    """A journal that makes its caller wait, so that a round has its parcels before it ends."""

    def append(self, items):
        super().append(items)
        assert self.drain(10)


def redo(folder, core):
    """Do again what a journal has; return the fingerprint of each version."""
    codec, waiting, versions = ParcelCodec(core.spec), deque(), {}
    for _, record in segments.read(folder / segments.FOLDER):
        if record.kind is Kind.MESSAGE:
            envelope, opened = payloads.open_message(record.payload)
            waiting.append(codec.decode(opened, envelope))
        elif record.kind is Kind.MARKER:
            marker = payloads.unpack(record)
            assert isinstance(marker, Marker)
            while core.state.steps < marker.steps:
                core.insert([waiting.popleft()])
            while core.state.updates < marker.updates:
                core.update()
            versions[core.publish().version] = core.fingerprint
            assert core.state.version == marker.version
    core.insert(list(waiting))
    while core.pacing.may_update:  # of the last round, which no version has
        core.update()
    return versions


def test_sequential_run_is_redone_from_parcels_and_markers(tmp_path):
    """Each published version and the last weights have the same bits again."""
    config = a_config(environments=2)
    core, endpoint = a_learner(config, tmp_path)
    totals = JournalTotals("one")
    endpoint.log = InTurnJournal(tmp_path, totals, 1, endpoint.queue.put, durable=False)
    versions, publish = {}, core.publish

    def published():
        weights = publish()
        versions[weights.version] = core.fingerprint
        return weights

    core.publish = published
    play(CoreAndEndpoint(core, endpoint), collectors(2, 2), lambda: core.state.updates >= 20)
    endpoint.log.close()
    again = a_learner(config, tmp_path, "again").core
    assert redo(tmp_path, again) == versions
    assert len(set(versions.values())) >= 5
    assert (again.fingerprint, again.state.updates) == (core.fingerprint, core.state.updates)
