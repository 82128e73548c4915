# What a program in Python does with the service, by LangGraph's own client. Prints what came of it as JSON.
# Run by test/client/python.ts: client.py <scenario> <address> <headers as JSON> <scenario's parameters as JSON>
import asyncio
import json
import sys
import warnings

import langgraph_sdk
from langgraph_sdk import get_client, get_sync_client

warnings.simplefilter("ignore")


def text_of(parts):
    return "".join(part.data[0]["content"] for part in parts if part.event == "messages")


def summary(parts):
    events = list(dict.fromkeys(part.event for part in parts))
    return {"text": text_of(parts), "events": events}


async def stream(client, given):
    parts = [part async for part in client.runs.stream(given["thread"], "lead_agent", input=given["input"], stream_mode=["messages-tuple"])]
    return summary(parts)


async def join_stream(client, given):
    parts = [part async for part in client.runs.join_stream(given["thread"], given["run"], stream_mode=["messages-tuple"], last_event_id="-1")]
    return summary(parts)


async def wait(client, given):
    return await client.runs.wait(given["thread"], "lead_agent", input=given["input"])


async def wait_and_join(client, given):
    """What a program does whose client gives up a wait."""
    try:
        await wait(client, given)
        error = None
    except Exception as problem:
        error = type(problem).__name__
    runs = await client.runs.list(given["thread"])
    return {"error": error, "runs": len(runs), "values": await client.runs.join(given["thread"], runs[0]["run_id"])}


async def read(client, given):
    thread = given["thread"]
    state = await client.threads.get_state(thread)
    history = await client.threads.get_history(thread)
    found = await client.threads.search(limit=1000)
    return {"state": state, "history": len(history), "threads": [one["thread_id"] for one in found]}


def remote_graph(url, headers, given):
    from langgraph.pregel.remote import RemoteGraph

    graph = RemoteGraph("lead_agent", url=url, headers=headers, api_key=None)
    config = {"configurable": {"thread_id": given["thread"]}}
    state = graph.get_state(config)
    history = list(graph.get_state_history(config))
    values = graph.invoke(given["input"], config)
    return {
        "next": list(state.next),
        "tasks": [{"name": task.name, "interrupts": [one.value for one in task.interrupts]} for task in state.tasks],
        "history": [len(one.values.get("messages", [])) for one in history],
        "messages": [message["content"] for message in values["messages"]],
    }


def sync(url, headers, given):
    client = get_sync_client(url=url, api_key=None, headers=headers)
    thread = client.threads.create()["thread_id"]
    parts = list(client.runs.stream(thread, "lead_agent", input=given["input"], stream_mode=["messages-tuple"]))
    runs = client.runs.list(thread)
    return {**summary(parts), "runs": len(runs)}


def main():
    if sys.argv[1] == "version":
        return print(langgraph_sdk.__version__)
    scenario, url, headers, given = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
    if scenario in ("sync", "remote_graph"):
        result = globals()[scenario](url, headers, given)
    else:
        client = get_client(url=url, api_key=None, headers=headers)
        result = asyncio.run(globals()[scenario](client, given))
    print(json.dumps(result))


main()
