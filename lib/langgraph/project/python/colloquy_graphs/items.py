# LangGraph's long-term store over the gateway's items: graphs and clients see the same data. `batch` blocks its thread, so that
# synchronous nodes, and synchronous calls in asynchronous ones, work.
import datetime

from langgraph.store.base import BaseStore, GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp

from .plain import plain


class Items(BaseStore):
    def __init__(self, channel, key: str | None) -> None:
        self._channel = channel
        # Names the run's user to the gateway; None: outside of a run.
        self._key = key

    def batch(self, ops):
        ops = list(ops)
        return [_result(*pair) for pair in zip(ops, self._channel.call("items", self._key, [_asked(op) for op in ops]))]

    async def abatch(self, ops):
        ops = list(ops)
        answers = await self._channel.acall("items", self._key, [_asked(op) for op in ops])
        return [_result(*pair) for pair in zip(ops, answers)]


def _asked(op) -> dict:
    """An operation under the names of LangGraph.js."""
    if isinstance(op, SearchOp):
        page = {"limit": op.limit, "offset": op.offset}
        return {"namespacePrefix": list(op.namespace_prefix), "filter": plain(op.filter), **page}
    if isinstance(op, ListNamespacesOp):
        found = [{"matchType": one.match_type, "path": list(one.path)} for one in op.match_conditions or ()]
        return {"matchConditions": found, "maxDepth": op.max_depth, "limit": op.limit, "offset": op.offset}
    if isinstance(op, PutOp):
        return {"namespace": list(op.namespace), "key": op.key, "value": plain(op.value)}
    return {"namespace": list(op.namespace), "key": op.key}


def _result(op, answer):
    if answer is None:
        return None
    if isinstance(op, GetOp):
        return Item(**_fields(answer))
    if isinstance(op, SearchOp):
        return [SearchItem(**_fields(one)) for one in answer]
    return [tuple(one) for one in answer] if isinstance(op, ListNamespacesOp) else None


def _fields(answer: dict) -> dict:
    stamps = {ours: _date(answer[theirs]) for ours, theirs in (("created_at", "createdAt"), ("updated_at", "updatedAt"))}
    return {"namespace": tuple(answer["namespace"]), "key": answer["key"], "value": answer["value"], **stamps}


def _date(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
