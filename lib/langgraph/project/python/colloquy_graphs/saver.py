# LangGraph's checkpointer over the gateway's tables. Values are what LangGraph's own serializer makes of them, opaque to the gateway; a
# list of messages is one value a message, so that the gateway can store only what is new. One instance serves one session.
import base64
import os

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.base import EXCLUDED_METADATA_KEYS, BaseCheckpointSaver, CheckpointTuple, get_checkpoint_metadata

from .plain import dumps, loads, plain

# Indexes of writes of which a task has only one, as in LangGraph.
_PLACES = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
_PAGE = 100
# What a caller's configuration can be made of.
_DATA = (str, int, float, list, dict, type(None))
_VERSION_DIGITS = 12
# Of a list in parts, and of the bytes of a serializer.
_LIST = "json"
_BYTES = "base64 "


class Saver(BaseCheckpointSaver):
    def __init__(self, channel, session: str | None) -> None:
        super().__init__()
        self._channel = channel
        # null: reads only.
        self._session = session

    # Each method twice: asynchronous nodes await, synchronous ones block their thread.

    def get_tuple(self, config):
        return self._tuple(self._channel.call("load", self._session, *_place(config)))

    async def aget_tuple(self, config):
        return self._tuple(await self._channel.acall("load", self._session, *_place(config)))

    def list(self, config, *, filter=None, before=None, limit=None):
        pages = _Pages(config, filter, before, limit)
        while pages.ask:
            for stored in pages.add(self._channel.call("list", self._session, *pages.ask)):
                yield self._tuple(stored)

    async def alist(self, config, *, filter=None, before=None, limit=None):
        pages = _Pages(config, filter, before, limit)
        while pages.ask:
            for stored in pages.add(await self._channel.acall("list", self._session, *pages.ask)):
                yield self._tuple(stored)

    def put(self, config, checkpoint, metadata, new_versions):
        self._channel.call("put", self._session, self._put(config, checkpoint, metadata, new_versions))
        return _config(config, checkpoint["id"])

    async def aput(self, config, checkpoint, metadata, new_versions):
        await self._channel.acall("put", self._session, self._put(config, checkpoint, metadata, new_versions))
        return _config(config, checkpoint["id"])

    def put_writes(self, config, writes, task_id, task_path=""):
        self._channel.call("write", self._session, self._writes(config, writes, task_id, task_path))

    async def aput_writes(self, config, writes, task_id, task_path=""):
        await self._channel.acall("write", self._session, self._writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id):
        """Checkpoints are deleted with their thread."""

    async def adelete_thread(self, thread_id):
        """Checkpoints are deleted with their thread."""

    def get_next_version(self, current, channel):
        """Unique across the branches of a thread, as the gateway stores a version's value once."""
        last = int(current.split(".")[0]) if isinstance(current, str) else (current or 0)
        return f"{last + 1:0{_VERSION_DIGITS}}.{os.urandom(6).hex()}"

    def _put(self, config, checkpoint, metadata, new_versions) -> dict:
        thread_id, ns, parent = _place(config)
        values = checkpoint["channel_values"]
        channels = []
        for channel, version in checkpoint["channel_versions"].items():
            if channel not in values:
                continue
            # Only what is new; the first checkpoint stores all.
            is_new = parent is None or channel in new_versions
            channels.append([channel, str(version), self._state(values[channel]) if is_new else None])
        return {
            "threadId": thread_id,
            "ns": ns,
            "checkpointId": checkpoint["id"],
            "parentId": parent,
            "checkpoint": dumps({key: one for key, one in checkpoint.items() if key != "channel_values"}).decode(),
            "metadata": dumps(_described(config, metadata)).decode(),
            "channels": channels,
        }

    def _writes(self, config, writes, task_id, task_path) -> dict:
        thread_id, ns, checkpoint_id = _place(config)
        saved = []
        for at, (channel, value) in enumerate(writes):
            place = {"task_id": task_id, "task_path": task_path, "idx": _PLACES.get(channel, at)}
            saved.append({**place, "channel": channel, **self._dumped(value)})
        return {"threadId": thread_id, "ns": ns, "checkpointId": checkpoint_id, "writes": saved}

    def _state(self, value) -> dict:
        """Of a state, messages also as they are shown: a run that shows one again names it (conversation/values.ts) and stores no copy."""
        return self._dumped(value, lambda one: {"shown": one})

    def _dumped(self, value, more=lambda one: {}) -> dict:
        if type(value) is list and value and all(isinstance(one, BaseMessage) for one in value):
            return {"type": _LIST, "data": dumps([{"id": one.id, **self._element(one), **more(one)} for one in value]).decode()}
        type_, data = self.serde.dumps_typed(value)
        return {"type": _BYTES + type_, "data": base64.b64encode(data).decode()}

    def _element(self, value) -> dict:
        type_, data = self.serde.dumps_typed(value)
        return {"type": type_, "data": base64.b64encode(data).decode()}

    def _loaded(self, type_: str, data: str):
        if type_ == _LIST:
            return [self.serde.loads_typed((one["type"], base64.b64decode(one["data"]))) for one in loads(data)]
        return self.serde.loads_typed((type_.removeprefix(_BYTES), base64.b64decode(data)))

    def _tuple(self, stored):
        if stored is None:
            return None
        thread_id, ns, run_id = stored["thread_id"], stored["ns"], stored["run_id"]
        checkpoint = loads(stored["checkpoint"])
        values = {channel: self._loaded(type_, data) for channel, type_, data in stored["channels"]}
        metadata = {**loads(stored["metadata"]), "thread_id": thread_id, **({"run_id": run_id} if run_id else {})}
        parent = stored["parent_id"]
        return CheckpointTuple(
            config=_at(thread_id, ns, stored["checkpoint_id"]),
            checkpoint={**checkpoint, "channel_values": values},
            metadata=metadata,
            parent_config=_at(thread_id, ns, parent) if parent else None,
            pending_writes=[
                (task_id, channel, self._loaded(type_, data)) for task_id, channel, type_, data in stored["writes"]
            ],
        )


class _Pages:
    """Which page of a list is asked for next; `ask` None: it is at its end."""

    def __init__(self, config, filter, before, limit) -> None:
        configurable = (config or {}).get("configurable", {})
        self._place = [configurable.get("thread_id"), configurable.get("checkpoint_ns"), configurable.get("checkpoint_id")]
        self._filter = plain(filter) if filter else None
        self._before = (before or {}).get("configurable", {}).get("checkpoint_id")
        self._left = limit
        self._next()

    def _next(self) -> None:
        limit = _PAGE if self._left is None else min(self._left, _PAGE)
        about = {"limit": limit, "before": self._before, "filter": self._filter}
        self.ask = [*self._place, about] if limit > 0 else None

    def add(self, page):
        """`page` None: the end. Otherwise what was found, and after which checkpoint to go on."""
        found, self._before = page["found"], page["before"]
        if self._left is not None:
            self._left -= len(found)
        self._next()
        if self._before is None:
            self.ask = None
        return found


def _place(config):
    configurable = config["configurable"]
    return configurable["thread_id"], configurable.get("checkpoint_ns") or "", configurable.get("checkpoint_id") or None


def _config(config, checkpoint_id):
    thread_id, ns, _ = _place(config)
    return _at(thread_id, ns, checkpoint_id)


def _at(thread_id, ns, checkpoint_id):
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}}


def _described(config, metadata: dict) -> dict:
    """What LangGraph's server keeps of a configuration: also what is no text and no number."""
    given = {**config["configurable"], **(config.get("metadata") or {})}
    data = {key: one for key, one in given.items() if key not in EXCLUDED_METADATA_KEYS and isinstance(one, _DATA)}
    kept = {**data, **get_checkpoint_metadata(config, metadata)}
    return {key: one for key, one in kept.items() if not key.startswith(("__", "langgraph_auth_"))}
