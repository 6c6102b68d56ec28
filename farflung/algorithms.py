"""The public names for an algorithm of your own: docs/algorithms.md explains them by an example.

It imports torch, as an algorithm does. Actors need neither.
"""

from farflung.common import heads as heads
from farflung.common.data.spec import ACTION_MASK as ACTION_MASK
from farflung.common.data.spec import INTERVENED as INTERVENED
from farflung.common.data.spec import Column as Column
from farflung.common.data.spec import Space as Space
from farflung.common.data.spec import Spec as Spec
from farflung.common.data.states import EPISODE as EPISODE
from farflung.common.heads.gaussian import UNCLIPPED_ACTIONS as UNCLIPPED_ACTIONS
from farflung.common.heads.head import LOG_PROBABILITY as LOG_PROBABILITY
from farflung.common.process.config import require as require
from farflung.learner.algorithms.distributions import Categorical as Categorical
from farflung.learner.algorithms.distributions import Gaussian as Gaussian
from farflung.learner.algorithms.distributions import MultiCategorical as MultiCategorical
from farflung.learner.algorithms.dqn import DQN as DQN
from farflung.learner.algorithms.flat_parameters import TargetNetwork as TargetNetwork
from farflung.learner.algorithms.impala import IMPALA as IMPALA
from farflung.learner.algorithms.on_policy_settings import IMPALASettings as IMPALASettings
from farflung.learner.algorithms.on_policy_settings import PPOSettings as PPOSettings
from farflung.learner.algorithms.ppo import PPO as PPO
from farflung.learner.algorithms.protocol import Algorithm as Algorithm
from farflung.learner.algorithms.protocol import Gradients as Gradients
from farflung.learner.algorithms.protocol import Model as Model
from farflung.learner.algorithms.settings import DQNSettings as DQNSettings
from farflung.learner.algorithms.trained import Trained as Trained
from farflung.learner.algorithms.trained import normal as normal
from farflung.learner.algorithms.trained import part as part
from farflung.learner.algorithms.trained import prefixed as prefixed
from farflung.learner.algorithms.trained import seeded as seeded
from farflung.learner.replay.advantages import advantages as advantages
from farflung.learner.replay.advantages import returns_to_go as returns_to_go
from farflung.learner.replay.on_policy import rollouts as rollouts
from farflung.learner.replay.prioritised import Priorities as Priorities
from farflung.learner.replay.prioritised import Prioritised as Prioritised
from farflung.learner.replay.replay import Batch as Batch
from farflung.learner.replay.replay import Replay as Replay
from farflung.learner.replay.rollouts import ADVANTAGES as ADVANTAGES
from farflung.learner.replay.rollouts import CONTINUES as CONTINUES
from farflung.learner.replay.rollouts import VALUE as VALUE
from farflung.learner.replay.sampling import Uniform as Uniform
from farflung.learner.replay.transitions import Transitions as Transitions
