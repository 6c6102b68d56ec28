"""The mask of legal actions that an environment has in its info, found before a run begins."""

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from farflung.actor.worlds.spaces import as_mask, fits
from farflung.common.data.spec import ACTION_MASK, INFO, Column, Space, World
from farflung.common.heads.masks import any_legal, mask_shape, of_each
from farflung.common.process.errors import ConfigurationError

log = logging.getLogger(__name__)

KEY = ACTION_MASK.removeprefix(INFO)


def offered(environment: Any, world: World, action: Space) -> Column | None:
    """Return the column of an environment's mask, or None. The environment is reset for that.

    One that cannot be reset here, as a robot's, has none. If it is broken, its actors say so.
    """
    if action.kind == "box":
        return None
    try:
        info = environment.reset(seed=world.seed)[1]
        if KEY not in info:
            return None
        mask = as_mask(info[KEY])
    except Exception:  # a user's code
        log.debug("%s has no mask: it cannot be reset", world.environment, exc_info=True)
        return None
    column = Column(ACTION_MASK, "bool", mask_shape(action), "observation")
    if mask.shape == column.shape and fits(mask, column.dtype):
        return column
    if len(action.sizes) > 1 and mask.size == math.prod(action.sizes):
        raise ConfigurationError(
            f"{world.environment} has an {KEY} in its info for the combinations of its choices, "
            f"{mask.shape}, and a mask says of each choice alone what is legal, in "
            f"{sum(action.sizes)} numbers: show that, or leave it alone with --no-action-mask"
        )
    log.warning(
        "%s has an %s in its info that is no mask of its %d actions, and all of them count as "
        "legal: it is %s %s, and a mask has 0 or 1 for each",
        world.environment,
        KEY,
        sum(action.sizes),
        mask.dtype,
        mask.shape,
    )
    return None


def sample(space: Any, info: Any) -> Any:
    """Return a random action of a space, a legal one where an info has the mask of them."""
    mask = as_mask(info.get(KEY, ()) if isinstance(info, Mapping) else ())
    several = getattr(space, "nvec", None)
    sizes = [getattr(space, "n", 0)] if several is None else np.ravel(several).tolist()
    if mask.shape != (sum(sizes),) or not fits(mask, "bool"):
        return space.sample()
    if not all(part.any() for part in of_each(mask, sizes)):
        raise ConfigurationError("an action is due, and the action mask in the info allows none")
    if several is None:
        return space.sample(mask=mask.astype(np.int8))
    chosen = any_legal(mask, sizes, space.np_random).reshape(space.shape)
    return (chosen + space.start).astype(space.dtype)
