# Graphs, their states and what they stream, as the gateway takes them: LangGraph's objects under the names of LangGraph.js.
import typing

from .plain import dumps, error_text, plain

# What happens to a tool's call, by LangGraph.js' names: the log has one form.
_TOOL_EVENTS = {"tool-started": "on_tool_start", "tool-output-delta": "on_tool_event", "tool-finished": "on_tool_end", "tool-error": "on_tool_error"}


def snapshot_view(snapshot) -> dict:
    """A StateSnapshot."""
    return {
        "values": snapshot.values,
        "next": list(snapshot.next),
        "config": _config_view(snapshot.config),
        "metadata": snapshot.metadata,
        "createdAt": snapshot.created_at,
        "parentConfig": _config_view(snapshot.parent_config),
        "tasks": [_task_view(task) for task in snapshot.tasks],
        "interrupts": [_interrupt(one) for one in snapshot.interrupts],
    }


def _task_view(task) -> dict:
    state = task.state
    if state is not None:
        state = snapshot_view(state) if hasattr(state, "values") and hasattr(state, "tasks") else _config_view(state)
    # What is not there is undefined in LangGraph.js.
    more = {name: one for name, one in (("error", _error(task.error)), ("result", task.result), ("state", state)) if one is not None}
    interrupts = [_interrupt(one) for one in task.interrupts]
    return {"id": task.id, "name": task.name, "path": list(task.path), "interrupts": interrupts, **more}


def _error(error):
    return error_text(error, repr) if isinstance(error, BaseException) else error


def _interrupt(interrupt) -> dict:
    return {"id": interrupt.id, "value": interrupt.value}


def _config_view(config):
    """Without what only LangGraph itself may see."""
    if not config:
        return None
    kept = {
        key: one for key, one in (config.get("configurable") or {}).items() if not key.startswith(("__", "langgraph_auth_"))
    }
    return {**{key: one for key, one in config.items() if key != "callbacks"}, "configurable": kept}


def shown_chunk(mode: str, data):
    """A chunk as LangGraph's server shows it."""
    if mode == "debug":
        return {**data, "payload": _debugged(data.get("type"), data.get("payload"))}
    if mode == "checkpoints" and "config" in data:
        return {**data, "config": _config_view(data.get("config")), "parent_config": _config_view(data.get("parent_config"))}
    return _task(data) if mode == "tasks" else data


class ToolCalls:
    """What one run's tools do, each event with the name of its tool, as LangGraph.js tells it."""

    def __init__(self) -> None:
        self._names: dict = {}

    def shown(self, data: dict) -> dict:
        event, call = _TOOL_EVENTS.get(data.get("event")), data.get("tool_call_id")
        if "tool_name" in data:
            self._names[call] = data["tool_name"]
        name = self._names.pop(call, None) if event in ("on_tool_end", "on_tool_error") else self._names.get(call)
        more = {ours: data[theirs] for theirs, ours in (("delta", "data"), ("output", "output")) if theirs in data}
        if "input" in data:
            more["input"] = dumps(data["input"]).decode()
        if "message" in data:
            more["error"] = {"message": data["message"]}
        return {"event": event, "toolCallId": call, "name": name, **more}


async def announced(chunks):
    """
    Each state behind the short form of its checkpoint, as LangGraph.js has them with subgraphs. LangGraph for Python tells a checkpoint
    right after its state: both are there before anybody waits.
    """
    held: dict = {}
    async for chunk in chunks:
        namespace, mode, data = chunk
        values = held.pop(namespace, None)
        if mode == "checkpoints":
            # Of one without a state nobody is told.
            if values is not None:
                yield namespace, mode, _short_checkpoint(data)
                yield values
            continue
        if values is not None:
            yield values
        # Questions are told between two checkpoints.
        if mode == "values" and not (isinstance(data, dict) and "__interrupt__" in data):
            held[namespace] = chunk
            continue
        yield chunk
    for chunk in held.values():
        yield chunk


def _short_checkpoint(data: dict) -> dict:
    parent = (_place(data.get("parent_config")) or {}).get("checkpoint_id")
    about = {name: data["metadata"].get(name) for name in ("step", "source")}
    return {"id": _place(data["config"])["checkpoint_id"], **({"parent_id": parent} if parent else {}), **about}


def _debugged(kind, payload):
    if kind == "checkpoint":
        return _checkpoint(payload)
    return _task(payload) if isinstance(payload, dict) else payload


def _checkpoint(payload: dict) -> dict:
    config, parent = payload.get("config"), payload.get("parent_config")
    return {
        **payload,
        "config": _config_view(config),
        "parent_config": _config_view(parent),
        "checkpoint": _place(config),
        "parent_checkpoint": _place(parent),
        "tasks": [_task(task) for task in payload.get("tasks") or ()],
    }


def _task(task: dict) -> dict:
    """One that is a subgraph shows its checkpoint instead of its state."""
    state = task.get("state")
    if not isinstance(state, dict) or not state.get("configurable"):
        return task
    rest = {key: one for key, one in task.items() if key != "state"}
    return {**rest, "checkpoint": _config_view(state)["configurable"]}


def _place(config):
    configurable = (config or {}).get("configurable") or {}
    if not configurable.get("thread_id") or not configurable.get("checkpoint_id"):
        return None
    names = ("thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map")
    return {name: configurable[name] for name in names if name in configurable}


def schemas_of(graph) -> dict:
    """JSON schemas, as far as the types have one."""
    found = {
        "state_schema": _tried(lambda: _state_schema(graph)),
        "input_schema": _tried(graph.get_input_jsonschema),
        "output_schema": _tried(graph.get_output_jsonschema),
        "config_schema": _tried(graph.get_config_jsonschema),
        "context_schema": _tried(graph.get_context_jsonschema),
    }
    return plain({name: schema for name, schema in found.items() if schema is not None})


def _tried(make):
    try:
        return make()
    except Exception:
        return None


def _state_schema(graph) -> dict:
    from pydantic import create_model

    fields = {}
    for name in graph.stream_channels_list:
        kind = graph.channels[name].UpdateType
        try:
            create_model(name, value=(kind, None)).model_json_schema()
        except Exception:
            kind = typing.Any
        fields[name] = (kind, None)
    return create_model(graph.get_name("State"), **fields).model_json_schema()
