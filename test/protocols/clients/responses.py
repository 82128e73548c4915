"""OpenAI's client in Python, unmodified: does what lines of JSON tell it, and answers each with one."""

import json
import sys
import time

import openai

PATIENCE = 300
WAIT_S = 0.1
ENDS = ("response.completed", "response.failed", "response.incomplete")

url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key=key)
ids = []
texts, reasonings, results = {}, {}, []


def take(event):
    kinds = {"response.output_text.delta": texts, "response.reasoning_text.delta": reasonings}
    if event.type in kinds:
        kind = kinds[event.type]
        kind[event.item_id] = kind.get(event.item_id, "") + event.delta
    if event.type == "response.output_item.done" and event.item.type == "mcp_call" and event.item.output is not None:
        results.append(event.item.output)


def turn(words):
    """Follows the answer by hand behind the number of its last event."""
    more = {"previous_response_id": ids[-1]} if ids else {}
    known, last = len(ids), -1
    why = None
    for _ in range(PATIENCE):
        try:
            if len(ids) == known:
                stream = client.responses.create(model="lead_agent", input=words, stream=True, **more)
            else:
                stream = client.responses.retrieve(ids[-1], stream=True, starting_after=last)
            for event in stream:
                if event.sequence_number != last + 1:
                    sys.exit(f"{event.sequence_number} behind {last}")
                last = event.sequence_number
                if event.type == "response.created":
                    ids.append(event.response.id)
                take(event)
                if event.type in ENDS:
                    return event.response.conversation.id
        except Exception as error:  # A cut has many names.
            why = error
            if len(ids) == known:
                raise
        time.sleep(WAIT_S)
    raise RuntimeError(f"it did not come back: {why}")


def later():
    """By the library's own helper, which reads the whole stream again."""
    shown = {"texts": [], "reasonings": [], "results": []}
    for response_id in ids:
        with client.responses.stream(response_id=response_id) as stream:
            ends = [event.response for event in stream if event.type in ENDS]
        for item in ends[0].output:
            if item.type == "message":
                shown["texts"].append("".join(part.text for part in item.content))
            if item.type == "reasoning":
                shown["reasonings"].append("".join(part.text for part in item.content or []))
            if item.type == "mcp_call" and item.output is not None:
                shown["results"].append(item.output)
    return shown


def obey(order):
    if "turn" in order:
        thread = turn(order["turn"])
        return {
            "thread": thread,
            "shown": {"texts": list(texts.values()), "reasonings": list(reasonings.values()), "results": results},
        }
    return {"shown": later()}


for line in sys.stdin:
    try:
        answer = obey(json.loads(line))
    except Exception as error:
        answer = {"error": repr(error)}
    print(json.dumps(answer), flush=True)
