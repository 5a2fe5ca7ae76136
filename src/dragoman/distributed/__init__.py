"""The processes that work on one training together, by PyTorch's own means; alone, nothing here does anything."""

from dragoman.distributed.world import ALONE, RankError, World, join_world, was_restarted, world_size

__all__ = ["ALONE", "RankError", "World", "join_world", "was_restarted", "world_size"]
