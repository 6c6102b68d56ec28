"""What each role can be told, by key: a program passes over the variables of the others. None of them is imported for it."""

ACTOR = """
    address keys feed-port policy name envs vector import allow-env evaluate once patience heartbeat acknowledged step-timeout
    max-policy-age log-level until-stdin-closes
"""
BROKER = """
    upstreams upstream-feed-port upstream-keys queue bind keys insecure port feed-port name log-level
"""
LEARNER = """
    env env-args wrapper stack import actors envs steps until seed mode run-dir name init resume durability keep-journal ui log-level
    horizon exploration-start exploration-end exploration-steps exploration-ladder compress capacity warmup replay-ratio tolerance
    batch-size publish-every device threads checkpoint-every evaluate-every evaluate-episodes bind keys insecure port feed-port
    policy algorithm model dqn.learning-rate dqn.gamma dqn.n-step dqn.double dqn.dueling dqn.hidden dqn.layer-norm dqn.loss
    dqn.target-every dqn.polyak dqn.max-gradient-norm
"""

KEYS = {
    role: frozenset(keys.split())
    for role, keys in (("actor", ACTOR), ("broker", BROKER), ("learner", LEARNER))
}
