# What a client sees of conversations: their frames, states and histories, without what is another each time. Prints them as JSON.
# Run by test/client/python-*.ts against our server and LangGraph's own: beside.py <address> <key> <conversations as JSON> [home]
# A conversation: {"graph": ..., "turns": [{"input" or "command": ..., "config"?, "interrupt_before"?, "checkpoint"?: n of the history}],
# "uploads"?: {name: base64}, put into DeerFlow's home before, "unordered"?: true where what works side by side ends in any order}
import asyncio
import base64
import json
import re
import sys
from pathlib import Path

from langgraph_sdk import get_client

URL, KEY, CONVERSATIONS, HOME = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), (sys.argv[4:] or [None])[0]
MODES = ["values", "updates", "messages-tuple", "custom", "tasks", "checkpoints", "debug"]
# Another each time, or the server's own: ids, times, who asks, and where it runs. A thread is of the assistant that its caller named,
# by a name or by an id.
MASKED = re.compile(
    r"^(langgraph_(api_.*|auth_.*|request_id|host|plan|version)|run_attempt|host|.*_url|created_at|timestamp|user_id|created_by"
    r"|assistant_id|__.*__|x-.*|user-agent)$"
)
# Of a checkpoint: their server in memory keeps the configuration that it was written with in its metadata as well.
WRITTEN_WITH = re.compile(r"^(checkpoint_(id|ns|map)|langgraph_(node|path|step|triggers|checkpoint_ns))$")
IDENTITY = re.compile(r"cmpl-\d+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|run--[0-9a-f-]+|\b[0-9a-f]{32}\b")


def shown(value):
    if isinstance(value, list):
        return [shown(one) for one in value]
    if not isinstance(value, dict):
        return shown_text(value) if isinstance(value, str) else value
    is_hidden = lambda key: MASKED.match(key) or ("source" in value and WRITTEN_WITH.match(key))
    return {IDENTITY.sub("id", key): shown(one) for key, one in value.items() if not is_hidden(key)}


def shown_text(text):
    return IDENTITY.sub("id", text.replace(HOME, "home") if HOME else text)


def upload(thread, files):
    folder = Path(HOME, "users", "default", "threads", thread, "user-data", "uploads")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(base64.b64decode(content))


async def turn(client, thread, graph, given, modes, subgraphs):
    asked = {name: one for name, one in given.items() if name != "checkpoint"}
    if "checkpoint" in given:
        history = await client.threads.get_history(thread, limit=100)
        asked["checkpoint_id"] = history[given["checkpoint"]]["checkpoint"]["checkpoint_id"]
    stream = client.runs.stream(thread, graph, stream_mode=modes, stream_subgraphs=subgraphs, **asked)
    return [[part.event, part.data] async for part in stream if part.event != "metadata"]


async def talk(client, about):
    thread = (await client.threads.create())["thread_id"]
    if "uploads" in about:
        upload(thread, about["uploads"])
    modes, subgraphs = about.get("modes", MODES), about.get("subgraphs", False)
    turns = [shown(await turn(client, thread, about["graph"], given, modes, subgraphs)) for given in about["turns"]]
    state = shown(await client.threads.get_state(thread, subgraphs=True))
    history = shown(await client.threads.get_history(thread, limit=100))
    found = await client.threads.get(thread)
    # Frames by event: tasks that work side by side end in any order, and modes are told one after the other.
    frames = [{event: [data for name, data in one if name == event] for event, _ in one} for one in turns]
    if about.get("unordered"):
        frames = [{event: sorted(all, key=json.dumps) for event, all in one.items()} for one in frames]
    kept = {name: found[name] for name in ("status", "values", "interrupts", "metadata")}
    return {"frames": frames, "state": state, "history": history, "thread": shown(kept)}


async def main():
    client = get_client(url=URL, api_key=KEY)
    print(json.dumps({name: await talk(client, about) for name, about in CONVERSATIONS.items()}))


asyncio.run(main())
