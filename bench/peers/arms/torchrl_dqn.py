"""TorchRL: its collector, replay buffer and DQN loss, with the network of the row."""

import torch
from _said import BATCH, HIDDEN, STEPS_PER_UPDATE, WARMUP, Counted, per_second, say, words
from tensordict import TensorDict
from tensordict.nn import TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import GymEnv
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss, HardUpdate


def updates(most: int) -> None:
    """Train with one update in four steps."""
    world = GymEnv("CartPole-v1", categorical_action_encoding=True)
    value = MLP(
        in_features=4, out_features=2, num_cells=list(HIDDEN), activation_class=torch.nn.ReLU
    )
    actor = QValueActor(value, spec=world.action_spec, in_keys=["observation"])
    explorer = EGreedyModule(world.action_spec, annealing_num_steps=10_000, eps_end=0.05)
    collector = Collector(
        world,
        TensorDictSequential(actor, explorer),
        frames_per_batch=STEPS_PER_UPDATE,
        total_frames=-1,
        init_random_frames=WARMUP,
    )
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100_000), batch_size=BATCH)
    loss = DQNLoss(actor, loss_function="smooth_l1", delay_value=True)
    loss.make_value_estimator(gamma=0.99)
    target = HardUpdate(loss, value_network_update_interval=25)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    counted, made, steps = Counted(), 0, 0
    for rows in collector:
        steps += rows.numel()
        buffer.extend(rows.reshape(-1))
        explorer.step(rows.numel())
        if steps <= WARMUP:
            continue
        found = loss(buffer.sample())["loss"]
        optimizer.zero_grad()
        found.backward()
        torch.nn.utils.clip_grad_norm_(loss.parameters(), 10.0)
        optimizer.step()
        target.step()
        made += 1
        if steps >= WARMUP + 400:
            counted.look(made, steps)
        if steps >= WARMUP + most:
            break
    collector.shutdown()
    counted.say()


def vectors(capacity: int, seconds: float) -> None:
    """Sample a full buffer."""
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), batch_size=256)
    column = torch.zeros(capacity)
    rows = {
        "observation": torch.rand(capacity, 4),
        "next_observation": torch.rand(capacity, 4),
        "action": column.long(),
        "reward": column,
        "done": column.bool(),
    }
    buffer.extend(TensorDict(rows, [capacity]))
    say(value=per_second(buffer.sample, seconds))


if __name__ == "__main__":
    torch.set_num_threads(1)
    asked = words()
    if asked.row == "updates":
        updates(1_200 if asked.short else 6_400)
    else:
        vectors(*((10_000, 0.3) if asked.short else (1_000_000, 2.0)))
