# A graph that langgraph.json names no more: the states that it has left are read from its checkpoints. What is next in them, and what
# its tasks ask, only the graph itself could say.
import re

_ROOT = "__root__"
# Channels of LangGraph's own: of beginnings, branches and tasks.
_INTERNAL = re.compile(r"^__|:")


class GoneGraph:
    """As far as reading a state takes a graph."""

    def __init__(self, saver) -> None:
        self._saver = saver

    async def aget_state(self, config, *, subgraphs=False):
        saved = await self._saver.aget_tuple(config)
        return _snapshot(saved) if saved else _state({}, config)

    async def aget_state_history(self, config, *, filter=None, before=None, limit=None):
        async for saved in self._saver.alist(config, filter=filter, before=before, limit=limit):
            yield _snapshot(saved)


def _snapshot(saved):
    channels = saved.checkpoint["channel_values"]
    shown = {name: one for name, one in channels.items() if not _INTERNAL.search(name)}
    values = channels[_ROOT] if _ROOT in channels else shown
    about = {"metadata": saved.metadata, "created_at": saved.checkpoint.get("ts"), "parent_config": saved.parent_config}
    return _state(values, saved.config, **about)


def _state(values, config, metadata=None, created_at=None, parent_config=None):
    from langgraph.types import StateSnapshot

    return StateSnapshot(values, (), config, metadata, created_at, parent_config, (), ())
