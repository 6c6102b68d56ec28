"""The rows of the comparison: the work, who does it, and how often."""

from collections.abc import Mapping
from dataclasses import dataclass

OURS = "farflung"


@dataclass(frozen=True, slots=True)
class Peer:
    """A library, and what its environment has besides."""

    package: str  # as pip takes it
    needs: tuple[str, ...] = ()
    alone: bool = False  # without its own requirements, whose bounds exclude our constraints


@dataclass(frozen=True, slots=True)
class Arm:
    """One contestant of a row: a script of bench/peers/arms, and its words."""

    label: str
    peer: str  # a key of PEERS; OURS is the environment of this process
    script: str = ""  # none yet: the row says if the library installs
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A figure, and the arms that take turns at it; the first one is ours."""

    title: str
    work: str
    unit: str
    arms: tuple[Arm, ...]
    rounds: int
    timeout_s: float
    falls: bool = False  # less is better
    updates_per_step: float = 0.0  # asked of each arm; 0: it makes none
    limit: str = ""  # of which the arm of ours measures the rate, in the same round


ACTING = ("torch", "numpy", "gymnasium")
PEERS: Mapping[str, Peer] = {
    "stable-baselines3": Peer("stable-baselines3"),
    "cleanrl": Peer("cleanrl"),
    "tianshou": Peer(
        "tianshou==2.0.1",
        (
            *(*ACTING, "h5py", "matplotlib", "numba", "overrides", "packaging", "pandas"),
            *("pettingzoo", "sensai-utils", "tensorboard", "tqdm", "deepdiff"),
        ),
        alone=True,
    ),
    "sample-factory": Peer(
        "sample-factory==2.1.1",
        (
            *(*ACTING, "tensorboard", "tensorboardX", "psutil", "threadpoolctl", "colorlog"),
            *("signal-slot-mp", "faster-fifo", "filelock", "opencv-python-headless"),
            *("huggingface-hub", "wandb"),
        ),
        alone=True,
    ),
    "torchrl": Peer("torchrl", ("gymnasium",)),
    "rllib": Peer(
        "ray",
        (
            *(*ACTING, "pandas", "tensorboardX", "requests", "pyarrow", "fsspec", "pydantic"),
            *("dm_tree", "lz4", "ormsgpack", "pyyaml", "scipy"),
        ),
    ),
    "pufferlib": Peer("pufferlib>=3", ACTING),
    "cpprb": Peer("cpprb"),
    "reverb": Peer("dm-reverb[tensorflow]"),
    "agentlace": Peer("agentlace"),
    "grpc": Peer("grpcio", ("numpy",)),
    "envpool": Peer("envpool"),
}

SOLVE = Row(
    "CartPole solved",
    "CartPole-v1 until 20 greedy episodes return 475 on average, from command to exit",
    "s",
    (
        Arm("Farflung DQN", OURS, "ours", ("solve",)),
        Arm("Farflung PPO", OURS, "ours", ("solve", "--preset", "cartpole-ppo")),
        Arm("PufferLib PPO", "pufferlib"),
        Arm("Stable-Baselines3 PPO", "stable-baselines3", "sb3", ("solve", "--ppo")),
        Arm("Stable-Baselines3 DQN", "stable-baselines3", "sb3", ("solve",)),
        Arm("Sample Factory APPO", "sample-factory", "appo", ("solve",)),
        Arm("CleanRL's DQN", "cleanrl", "plain_dqn", ("solve",)),
        Arm("Tianshou DQN", "tianshou", "tianshou_dqn", ("solve",)),
        Arm("RLlib PPO", "rllib", "rllib_cartpole", ("solve",)),
    ),
    rounds=5,
    timeout_s=60,
    falls=True,
)
UPDATES = Row(
    "Updates",
    "updates of DQN, batch 128, two layers of 128, one in 4 environment steps, acting included",
    "1/s",
    (
        Arm("Farflung", OURS, "ours", ("updates",)),
        Arm("Farflung, default settings", OURS, "ours", ("updates", "--default")),
        Arm("Stable-Baselines3", "stable-baselines3", "sb3", ("updates",)),
        Arm("CleanRL's DQN", "cleanrl", "plain_dqn", ("updates",)),
        Arm("Tianshou", "tianshou", "tianshou_dqn", ("updates",)),
        Arm("TorchRL", "torchrl", "torchrl_dqn", ("updates",)),
        Arm("RLlib", "rllib", "rllib_cartpole", ("updates",)),
    ),
    rounds=3,
    timeout_s=60,
    updates_per_step=0.25,
    limit="the update of torch alone, with fused Adam",
)
DATA_PATH = Row(
    "Data path",
    "messages of 64 KiB from process to process, decoded or stored, and acknowledged",
    "1/s",
    (
        Arm("Farflung", OURS, "ours", ("data_path",)),
        Arm("Farflung, journal with fsync", OURS, "ours", ("data_path", "--fsync")),
        Arm("agentlace", "agentlace"),
        Arm("gRPC", "grpc", "grpc_path", ("data_path",)),
        Arm("Reverb", "reverb"),
    ),
    rounds=5,
    timeout_s=60,
    limit="raw ZeroMQ",
)
VECTORS = Row(
    "Batches of vectors",
    "uniform batches of 256 of 1,000,000 transitions of 4 float32",
    "1/s",
    (
        Arm("Farflung", OURS, "ours", ("vectors",)),
        Arm("cpprb", "cpprb", "cpprb_replay", ("vectors",)),
        Arm("Stable-Baselines3", "stable-baselines3", "sb3", ("vectors",)),
        Arm("TorchRL", "torchrl", "torchrl_dqn", ("vectors",)),
    ),
    rounds=3,
    timeout_s=90,
    limit="a bare gather of numpy",
)
IMAGES = Row(
    "Batches of images",
    "uniform batches of 256 stacks of 4 images of 84 x 84, one step",
    "1/s",
    (
        Arm("Farflung", OURS, "ours", ("images",)),
        Arm("cpprb", "cpprb", "cpprb_replay", ("images",)),
    ),
    rounds=3,
    timeout_s=90,
    limit="a bare gather of numpy",
)
STEPS = Row(
    "CartPole steps",
    "CartPole-v1 steps, acting with a network, on all processors",
    "1/s",
    (
        Arm("Farflung, two actors of 64", OURS, "ours", ("steps",)),
        Arm("Farflung, --vector", OURS, "ours", ("steps", "--vector")),
        Arm("EnvPool and a network in numpy", "envpool", "envpool_steps", ("steps",)),
        Arm("Stable-Baselines3 PPO, 64 environments", "stable-baselines3", "sb3", ("steps",)),
        Arm("PufferLib PPO", "pufferlib"),
    ),
    rounds=3,
    timeout_s=60,
    limit="gymnasium's vector form of 64 without a network",
)
SLOW = Row(
    "Slow environments",
    "32 environments of 5 ms a step in 32 processes ÷ 32 × one",
    "ratio",
    (
        Arm("Farflung", OURS, "ours", ("slow",)),
        Arm("AsyncVectorEnv", "stable-baselines3", "slow_vectors", ("slow",)),
        Arm("SB3 SubprocVecEnv", "stable-baselines3", "slow_vectors", ("slow", "--sb3")),
    ),
    rounds=3,
    timeout_s=120,
)
ROWS: Mapping[str, Row] = {
    "solve": SOLVE,
    "updates": UPDATES,
    "data_path": DATA_PATH,
    "vectors": VECTORS,
    "images": IMAGES,
    "steps": STEPS,
    "slow": SLOW,
}
