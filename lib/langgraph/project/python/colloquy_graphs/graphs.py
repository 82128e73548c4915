# What the gateway asks of the graphs: to run, to read and to write a state, and what they look like.
import asyncio
import contextlib
import itertools
import uuid
from collections import deque

from .items import Items
from . import output as printed
from .extensions import extended, transformers_of
from .output import RUN
from .pipe import Channel
from .plain import plain
from .gone_graph import GoneGraph
from .project import Factory, Handle, Project, server_runtime
from .saver import Saver
from .user import User
from .views import ToolCalls, announced, schemas_of, shown_chunk, snapshot_view
from .watch import LoopWatch

# Of one run, sent and not acknowledged: from here on a graph waits at the end of its superstep,
_WAIT_BYTES = 1 << 20
_WAIT_MESSAGES = 1024
# and here its run is ended. Within a superstep a graph cannot be held up.
_BYTES_MAX = 64 << 20
_MESSAGES_MAX = 200_000
_UNNAMED = "LangGraph"


class RunOutgrown(Exception):
    """The run produces more than can be taken."""


class Output:
    """What one run sends: counted until the gateway has taken it."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number
        self._sizes: deque = deque()
        self._bytes = 0
        self._space = asyncio.Event()

    def send(self, namespace, mode: str, data) -> None:
        size = self._channel.send("chunk", self._number, namespace, mode, data)
        self._sizes.append(size)
        self._bytes += size
        if self._bytes > _BYTES_MAX or len(self._sizes) > _MESSAGES_MAX:
            raise RunOutgrown(
                f"The run has {len(self._sizes)} messages of {self._bytes >> 20} MB that nobody has taken yet: it is stopped"
            )

    def heard(self, count: int) -> None:
        for _ in range(min(count, len(self._sizes))):
            self._bytes -= self._sizes.popleft()
        if self._has_space:
            self._space.set()

    @property
    def _has_space(self) -> bool:
        return self._bytes <= _WAIT_BYTES and len(self._sizes) <= _WAIT_MESSAGES

    async def space(self) -> None:
        while not self._has_space:
            self._space.clear()
            await self._space.wait()


class Graphs:
    """Each public method answers a call of the gateway, and has the name it is called by."""

    def __init__(self, channel: Channel, project: Project) -> None:
        self._channel = channel
        self._project = project
        self._handles: dict = {}
        self._numbers = itertools.count(1)
        self._runs: dict = {}
        self._is_draining = False
        self._watch = LoopWatch(self._blocked)

    def handlers(self) -> dict:
        names = "make release stream cancel heard drain getState history updateState buildState draw schemas subgraphs"
        return {name: getattr(self, name) for name in names.split()}

    def _blocked(self, graphs: list, blocked_ms: int) -> None:
        about = {"graphs": graphs, "blocked_ms": blocked_ms}
        self._channel.send("log", "warn", None, about, "a graph blocked the event loop of its process: let long work be a synchronous node, or await it")

    # ------------------------------------------------------------------------------------------------ a graph of a call

    async def make(self, graph_id: str, config: dict, access: str, context, store_key):
        """The graph for one call; a number where it has to be released."""
        value = self._project.value(graph_id)
        if not isinstance(value, Factory):
            return {"graph": graph_id, "channels": [*value.channels]}
        configurable = _configurable(config)
        store = Items(self._channel, store_key)
        runtime = server_runtime(access, configurable.get("langgraph_auth_user"), store, context or None)
        configurable["__pregel_runtime"] = runtime
        configurable["__pregel_checkpointer"] = Saver(self._channel, None)
        metadata = {**_described(configurable), **(config.get("metadata") or {})}
        given = {"tags": [], **config, "metadata": metadata, "configurable": configurable}
        handle = Handle()
        graph = await handle.open(_in_config(given, value.open(given, runtime)))
        number = next(self._numbers)
        # What the factory has added to the metadata of its configuration is its run's.
        self._handles[number] = (graph, handle, graph_id, metadata)
        return {"graph": number, "channels": [*graph.channels]}

    def release(self, number: int) -> None:
        if number in self._handles:
            self._handles.pop(number)[1].close()

    def _bound(self, graph, session, store_key=None):
        """With our checkpointer and store: the user's own object stays as it is. None: a graph that is gone."""
        if graph is None:
            return GoneGraph(Saver(self._channel, session))
        found = self._handles[graph][0] if isinstance(graph, int) else self._project.value(graph)
        bound = {"checkpointer": Saver(self._channel, session), "store": Items(self._channel, store_key)}
        # As LangGraph's server calls a graph that has no name of its own.
        if found.name == _UNNAMED:
            bound["name"] = self._id_of(graph)
        return found.copy(update=bound)

    def _id_of(self, graph) -> str:
        return self._handles[graph][2] if isinstance(graph, int) else graph

    # -------------------------------------------------------------------------------------------------------------- runs

    async def stream(self, number: int, graph, session, store_key, given: dict, options: dict) -> None:
        from langgraph.runtime import RunControl

        output, control = Output(self._channel, number), RunControl()
        self._runs[number] = (output, asyncio.current_task(), control)
        if self._is_draining:
            control.request_drain()
        RUN.set(options["runId"])
        calls = ToolCalls()
        try:
            bound = self._bound(graph, session, store_key)
            transformers = transformers_of(bound, self._project.module(self._id_of(graph)))
            more = self._handles[graph][3] if isinstance(graph, int) else {}
            about = {**options, "metadata": {**options["metadata"], **more}}
            chunks = self._announced(bound, _input(given), about, control, transformers)
            async with contextlib.aclosing(chunks) as stream:
                with self._watch.during(self._id_of(graph)):
                    async for namespace, mode, data in stream:
                        output.send(namespace, mode, calls.shown(data) if mode == "tools" else shown_chunk(mode, data))
                        # The superstep is over, and the graph goes on only when this goes on.
                        if mode == "values" and not namespace:
                            await output.space()
        finally:
            self._runs.pop(number, None)
            printed.end(options["runId"])

    def _announced(self, graph, given, options: dict, control, transformers: list):
        """With subgraphs, checkpoints are told in short, unless they are asked for."""
        modes = options["streamMode"]
        if not options["subgraphs"] or "checkpoints" in modes:
            return self._chunks(graph, given, options, control, transformers)
        return announced(self._chunks(graph, given, {**options, "streamMode": [*modes, "checkpoints"]}, control, transformers))

    async def _chunks(self, graph, given, options: dict, control, transformers: list):
        modes, with_subgraphs = options["streamMode"], options["subgraphs"]
        context, lacking = _context(graph, options)
        config = _config(options)
        # A context stands in the configuration too, without what its schema lacks.
        config["configurable"] = {key: one for key, one in config["configurable"].items() if key not in lacking}
        about = {
            "stream_mode": [mode for mode in modes if mode != "events"],
            "subgraphs": with_subgraphs,
            "context": context,
            "durability": options.get("durability"),
            "interrupt_before": options.get("interruptBefore"),
            "interrupt_after": options.get("interruptAfter"),
            "control": control,
        }
        if "events" not in modes:
            # As LangGraph's server asks, but for events: channels that are a graph's own are nobody else's.
            about["output_keys"] = graph.output_channels
        if transformers and "events" not in modes:
            async for chunk in extended(graph, given, config, about, transformers):
                yield chunk
            return
        if "events" not in modes:
            async for chunk in graph.astream(given, config, **about):
                yield chunk if with_subgraphs else ((), *chunk)
            return
        async for event in graph.astream_events(given, config, version="v2", **about):
            if "langsmith:hidden" in (event.get("tags") or ()):
                continue
            if event["event"] == "on_chain_stream" and event["run_id"] == options["runId"]:
                chunk = event["data"]["chunk"]
                yield chunk if with_subgraphs else ((), *chunk)
            else:
                yield (), "events", event

    def cancel(self, number: int) -> None:
        if number in self._runs:
            self._runs[number][1].cancel()

    def heard(self, number: int, count: int) -> None:
        if number in self._runs:
            self._runs[number][0].heard(count)

    def drain(self) -> None:
        """Each run stops after its superstep, also one that is about to begin."""
        self._is_draining = True
        for _, _, control in self._runs.values():
            control.request_drain()

    # ------------------------------------------------------------------------------------------------------------ states

    async def getState(self, graph, session, config: dict, subgraphs: bool):
        return snapshot_view(await self._bound(graph, session).aget_state(_config(config), subgraphs=subgraphs))

    async def history(self, graph, session, config: dict, options: dict):
        before = options.get("before")
        found = self._bound(graph, session).aget_state_history(
            _config(config), filter=options.get("filter"), before=_config(before) if before else None, limit=options.get("limit")
        )
        return [snapshot_view(one) async for one in found]

    async def updateState(self, graph, session, config: dict, given: dict, as_node):
        await self._bound(graph, session).aupdate_state(_config(config), _input(given), as_node=as_node)

    async def buildState(self, graph, session, config: dict, supersteps: list):
        from langgraph.types import StateUpdate

        steps = [[StateUpdate(_input(one["values"]), one["asNode"]) for one in step] for step in supersteps]
        await self._bound(graph, session).abulk_update_state(_config(config), steps)

    # ------------------------------------------------------------------------------------------------------- what they are

    async def draw(self, graph, config: dict, xray):
        drawn = await self._bound(graph, None).aget_graph(_config(config), xray=xray)
        return plain(drawn.to_json())

    async def schemas(self, graph):
        return schemas_of(self._bound(graph, None))

    async def subgraphs(self, graph, namespace, recurse: bool):
        found = self._bound(graph, None).aget_subgraphs(namespace=namespace, recurse=recurse)
        return {path: schemas_of(inner) async for path, inner in found}


@contextlib.asynccontextmanager
async def _in_config(config: dict, opening):
    """A factory may call runnables: they find its configuration."""
    from langchain_core.runnables.config import var_child_runnable_config

    var_child_runnable_config.set(config)
    async with opening as graph:
        yield graph


def _configurable(config: dict) -> dict:
    configurable = {**(config.get("configurable") or {})}
    user = configurable.get("langgraph_auth_user")
    if isinstance(user, dict):
        configurable["langgraph_auth_user"] = User(user)
    return configurable


def _described(configurable: dict) -> dict:
    """What LangGraph's server says of a factory's configuration in its metadata: plain values, and no secrets."""
    is_shown = lambda key: not key.startswith(("__", "langgraph_auth_")) and key != "api_key"
    return {key: one for key, one in configurable.items() if is_shown(key) and isinstance(one, (str, int, float))}


def _config(options: dict) -> dict:
    config: dict = {"configurable": _configurable(options)}
    for ours, theirs in (("metadata", "metadata"), ("tags", "tags"), ("recursionLimit", "recursion_limit")):
        if options.get(ours) is not None:
            config[theirs] = options[ours]
    if "runId" in options:
        config["run_id"] = uuid.UUID(options["runId"])
    return config


def _context(graph, options: dict):
    """
    The caller's context, or else the configuration, as LangGraph's server takes the one for the other; without what the schema lacks, and
    which keys of a context those are.
    """
    own = options.get("context") or {}
    context = own or options.get("given") or None
    schema = context and graph.get_context_jsonschema()
    if not schema or schema.get("additionalProperties") is True or "properties" not in schema:
        return context, ()
    lacking = [key for key in own if key not in schema["properties"] and options["configurable"].get(key) == own[key]]
    return {key: one for key, one in context.items() if key in schema["properties"]} or None, lacking


def _input(given: dict):
    """Values, a command, or nothing."""
    if "command" not in given:
        return _removing(given.get("values"))
    from langgraph.types import Command, Send

    command = given["command"]
    goto = [one if isinstance(one, str) else Send(one["node"], one.get("args")) for one in command.get("goto") or ()]
    update = _removing(command.get("update"))
    if isinstance(update, list) and all(isinstance(one, list) and len(one) == 2 for one in update):
        update = [tuple(one) for one in update]
    return Command(goto=goto or (), update=update, resume=command.get("resume"))


def _removing(values):
    """LangChain for Python reads a message only with its content, which one that removes another has not."""
    messages = values.get("messages") if isinstance(values, dict) else None
    if not isinstance(messages, list):
        return values
    removes = lambda one: isinstance(one, dict) and one.get("type") == "remove"
    return {**values, "messages": [{"content": "", **one} if removes(one) else one for one in messages]}
