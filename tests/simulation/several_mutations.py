"""Faults planted in the actor of several policies, each of which the simulation must notice."""

from simulation.mutations import Mutation

DELIVERY, LOOP = "farflung.actor.connection.delivery", "farflung.actor.loop"
CLIENT = "farflung.actor.connection.policy_client"
SEVERAL_MUTATIONS = (
    Mutation(
        "rows go to the learner of another policy",
        LOOP,
        "            waiting = self._parcels.setdefault(policy, deque())\n"
        "            for parcel in parcels:\n"
        "                waiting.append((self._runs[policy], parcel))\n",
        "            other = list(self._runs)[-1]\n"
        "            waiting = self._parcels.setdefault(other, deque())\n"
        "            for parcel in parcels:\n"
        "                waiting.append((self._runs[other], parcel))\n",
    ),
    Mutation(
        "a learner takes rows of another policy",
        "farflung.learner.endpoint.receiver",
        "        if policy != self._spec.policy:",
        "        if False:",
    ),
    Mutation(
        "the window of one policy drops the rows of another",
        LOOP,
        "        self._take(play, [policy for policy, player in players.items() if player.full])",
        "        self._take(play, [policy for policy, one in players.items() if one.full][:1])\n"
        "        for player in players.values():\n"
        "            player.full or player.parcels()",
    ),
    Mutation(
        "another run of one policy drops the rows of the others",
        LOOP,
        "                if goes_on and not player.full:",
        "                if False:",
        seed=3,
    ),
    Mutation(
        "rows without a learner are not counted",
        DELIVERY,
        "            self.client.outbox.ledger.miss(reason, 1, parcel.rows)\n",
        "",
    ),
    Mutation(
        "rows of a run that is over are not counted",
        CLIENT,
        "        self.outbox.ledger.miss(RUN_ENDED, 1, parcel.rows)\n",
        "",
    ),
    Mutation(
        "rows of a run that is over go to the next one",
        CLIENT,
        "return joined is not self.joined or self.offer(parcel)",
        "return self.offer(parcel)",
        seed=3,
    ),
    Mutation(
        "a full window is lost with its actor",
        LOOP,
        "                if self._upkeep.over and not finished:",
        "                if self._upkeep.over:",
        seed=8,
    ),
    Mutation(
        "a learner that is away holds up the others",
        DELIVERY,
        "        elif now - self._took_at >= AWAY_S:",
        "        elif False:",
        seed=3,
    ),
    Mutation(
        "a learner that is back stays away",
        DELIVERY,
        "            if self.away:\n                self._return()",
        "            pass",
        seed=4,
    ),
    Mutation(
        "a learner that has moved is not found",
        DELIVERY,
        "            if self.client.joined is None or self.client.tracker.quiet_s(now) >= AWAY_S:",
        "            if False:",
        seed=1,
    ),
    Mutation(
        "a policy that is away begins another window only with the others",
        "farflung.actor.play",
        "if weights is None or not (goes_on or player.wants(weights) or policy in away):",
        "if weights is None or away or not (goes_on or player.wants(weights)):",
        seed=14,
    ),
)
