# Rules that LangGraph's own development server keeps for its Python client, each a short program. Prints as JSON what came of each:
# null where it holds, "absent" where this version of the client does not know the method, else the error.
# Run by test/client/python-rules.ts: rules.py <address> <key> [a part of the rules' names]
import asyncio
import json
import sys
import uuid
import warnings

from langgraph_sdk import get_client, get_sync_client

warnings.simplefilter("ignore")

RULES = {}
URL, KEY = sys.argv[1], sys.argv[2]
FOO = {"messages": [{"role": "user", "content": "foo", "id": "foo"}]}
ANSWERS = ["foo", "begin", "tool_call__begin", "end"]
ASKING = {"configurable": {"ask": "know"}}


class Absent(Exception):
    pass


def rule(function):
    RULES[function.__name__.replace("_", " ")] = function
    return function


def client_of():
    return get_client(url=URL, api_key=KEY)


def method(owner, name):
    found = getattr(owner, name, None)
    if found is None:
        raise Absent(name)
    return found


def same(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} and not {wanted!r}"[:300])


def holds(found, what=""):
    if not found:
        raise AssertionError(f"does not hold: {what}"[:300])


async def refused(asked, *statuses):
    try:
        answer = await asked
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status not in statuses:
            raise AssertionError(f"{status} and not {statuses}: {error}"[:300])
        return
    raise AssertionError(f"no error: {answer!r}"[:300])


async def until(ask, wanted):
    for _ in range(300):
        found = await ask()
        if wanted(found):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"never so: {found!r}"[:300])


def texts(values):
    return [message["content"] for message in values["messages"]]


async def assistant_of(c, graph):
    [found] = await c.assistants.search(graph_id=graph, metadata={"created_by": "system"})
    return found["assistant_id"]


async def thread_of(c):
    return (await c.threads.create())["thread_id"]


async def talked(c, graph="agent", given=FOO, **more):
    thread = await thread_of(c)
    await c.runs.wait(thread, graph, input=given, **more)
    return thread


async def parts_of(stream):
    return [part async for part in stream]


async def streamed(c, graph="agent", given=FOO, thread=None, **more):
    return await parts_of(c.runs.stream(thread or await thread_of(c), graph, input=given, **more))


def data_of(parts, event):
    return [part.data for part in parts if part.event == event]


def kinds(parts):
    return list(dict.fromkeys(part.event for part in parts))


# ---------------------------------------------------------------------------------------------------------- threads


@rule
async def a_thread_is_made_with_metadata_and_read_again(c):
    made = await c.threads.create(metadata={"a": "b"})
    found = await c.threads.get(made["thread_id"])
    same(found["metadata"].get("a"), "b")
    same(found["status"], "idle")


@rule
async def a_thread_is_made_under_an_id_of_the_caller(c):
    id = str(uuid.uuid4())
    same((await c.threads.create(thread_id=id))["thread_id"], id)


@rule
async def an_id_that_is_taken_is_409_when_asked(c):
    id = await thread_of(c)
    await refused(c.threads.create(thread_id=id, if_exists="raise"), 409)


@rule
async def a_thread_that_is_there_is_given_with_do_nothing(c):
    made = await c.threads.create(metadata={"a": "b"})
    again = await c.threads.create(thread_id=made["thread_id"], if_exists="do_nothing")
    same(again["metadata"].get("a"), "b")


@rule
async def an_unknown_thread_is_404(c):
    await refused(c.threads.get(str(uuid.uuid4())), 404)


@rule
async def metadata_of_a_thread_is_merged(c):
    id = (await c.threads.create(metadata={"a": "b"}))["thread_id"]
    await c.threads.update(id, metadata={"c": "d"})
    found = (await c.threads.get(id))["metadata"]
    same([found.get("a"), found.get("c")], ["b", "d"])


@rule
async def a_thread_that_is_deleted_is_gone(c):
    id = await thread_of(c)
    await c.threads.delete(id)
    await refused(c.threads.get(id), 404)


@rule
async def threads_are_searched_by_metadata(c):
    mark = str(uuid.uuid4())
    id = (await c.threads.create(metadata={"mark": mark}))["thread_id"]
    await c.threads.create(metadata={"mark": "other"})
    same([one["thread_id"] for one in await c.threads.search(metadata={"mark": mark})], [id])


@rule
async def threads_are_searched_in_pages_newest_first(c):
    mark = str(uuid.uuid4())
    ids = [(await c.threads.create(metadata={"mark": mark}))["thread_id"] for _ in range(3)]
    found = await c.threads.search(metadata={"mark": mark}, limit=2, offset=1)
    same([one["thread_id"] for one in found], [ids[1], ids[0]])


@rule
async def threads_are_searched_by_status(c):
    mark = str(uuid.uuid4())
    id = (await c.threads.create(metadata={"mark": mark}))["thread_id"]
    await c.runs.wait(id, "agent", input=FOO, config=ASKING)
    await c.threads.create(metadata={"mark": mark})
    found = await c.threads.search(metadata={"mark": mark}, status="interrupted")
    same([one["thread_id"] for one in found], [id])


@rule
async def threads_are_sorted_when_asked(c):
    mark = str(uuid.uuid4())
    ids = [(await c.threads.create(metadata={"mark": mark}))["thread_id"] for _ in range(2)]
    try:
        found = await c.threads.search(metadata={"mark": mark}, sort_by="created_at", sort_order="asc")
    except TypeError as error:
        raise Absent(str(error))
    same([one["thread_id"] for one in found], ids)


@rule
async def threads_are_counted(c):
    mark = str(uuid.uuid4())
    await c.threads.create(metadata={"mark": mark})
    same(await method(c.threads, "count")(metadata={"mark": mark}), 1)


@rule
async def a_list_of_threads_has_their_values(c):
    mark = str(uuid.uuid4())
    id = (await c.threads.create(metadata={"mark": mark}))["thread_id"]
    await c.runs.wait(id, "agent", input=FOO)
    [found] = await c.threads.search(metadata={"mark": mark})
    same(texts(found["values"]), ANSWERS)


@rule
async def a_thread_bears_its_graph_after_its_first_run(c):
    thread = await c.threads.get(await talked(c))
    same(thread["metadata"].get("graph_id"), "agent")
    holds(thread["metadata"].get("assistant_id"), "assistant_id")


@rule
async def a_thread_is_copied_with_its_history(c):
    id = await talked(c)
    copy = (await c.threads.copy(id))["thread_id"]
    holds(copy != id, "another one")
    same(texts((await c.threads.get_state(copy))["values"]), ANSWERS)
    same(len(await c.threads.get_history(copy)), len(await c.threads.get_history(id)))


@rule
async def a_thread_is_made_with_supersteps(c):
    steps = [{"updates": [{"values": FOO, "as_node": "__start__"}]}]
    steps.append({"updates": [{"values": {"messages": [{"role": "ai", "content": "said"}]}, "as_node": "agent"}]})
    try:
        made = await c.threads.create(graph_id="agent", supersteps=steps)
    except TypeError as error:
        raise Absent(str(error))
    same(texts((await c.threads.get_state(made["thread_id"]))["values"]), ["foo", "said"])


# ------------------------------------------------------------------------------------------------ state and history


@rule
async def the_state_of_a_thread_that_never_ran_is_empty(c):
    state = await c.threads.get_state(await thread_of(c))
    same([state["next"], state["tasks"]], [[], []])


@rule
async def a_state_has_values_and_nothing_next_at_the_end(c):
    state = await c.threads.get_state(await talked(c))
    same([texts(state["values"]), state["next"]], [ANSWERS, []])
    holds(state["checkpoint"]["checkpoint_id"], "a checkpoint")


@rule
async def a_history_has_an_entry_a_superstep_newest_first(c):
    history = await c.threads.get_history(await talked(c))
    same([one["next"] for one in history], [[], ["agent"], ["tool"], ["agent"], ["__start__"]])
    same([len(one["values"].get("messages", [])) for one in history], [4, 3, 2, 1, 0])


@rule
async def a_history_has_a_limit_and_a_place_before_which_it_begins(c):
    id = await talked(c)
    first = await c.threads.get_history(id, limit=2)
    same(len(first), 2)
    rest = await c.threads.get_history(id, before={"configurable": {"checkpoint_id": first[-1]["checkpoint"]["checkpoint_id"]}})
    same([one["next"] for one in rest], [["tool"], ["agent"], ["__start__"]])


@rule
async def a_history_is_filtered_by_metadata(c):
    id = await talked(c)
    await c.runs.wait(id, "agent", input=FOO, metadata={"mark": "second"})
    found = await c.threads.get_history(id, metadata={"mark": "second"}, limit=20)
    holds(0 < len(found) < 10, f"{len(found)} entries")
    holds(all(one["metadata"].get("mark") == "second" for one in found), "only those")


@rule
async def a_state_of_before_is_read_by_its_checkpoint(c):
    id = await talked(c)
    third = (await c.threads.get_history(id))[2]
    same(texts((await c.threads.get_state(id, checkpoint=third["checkpoint"]))["values"]), ANSWERS[:2])
    found = await c.threads.get_state(id, checkpoint_id=third["checkpoint"]["checkpoint_id"])
    same(texts(found["values"]), ANSWERS[:2])


@rule
async def an_update_adds_a_message(c):
    id = await talked(c)
    await c.threads.update_state(id, {"messages": [{"role": "user", "content": "more"}]})
    same(texts((await c.threads.get_state(id))["values"]), [*ANSWERS, "more"])


@rule
async def an_update_replaces_a_message_by_its_id(c):
    id = await talked(c)
    await c.threads.update_state(id, {"messages": [{"role": "user", "content": "edited", "id": "foo"}]})
    same(texts((await c.threads.get_state(id))["values"]), ["edited", *ANSWERS[1:]])


@rule
async def an_update_removes_a_message(c):
    id = await talked(c)
    await c.threads.update_state(id, {"messages": [{"type": "remove", "id": "foo", "content": ""}]})
    same(texts((await c.threads.get_state(id))["values"]), ANSWERS[1:])


@rule
async def an_update_says_which_checkpoint_it_made(c):
    id = await talked(c)
    told = await c.threads.update_state(id, {"messages": []})
    same(told["checkpoint"]["checkpoint_id"], (await c.threads.get_state(id))["checkpoint"]["checkpoint_id"])


@rule
async def a_run_goes_on_from_the_node_that_an_update_was_said_to_be(c):
    id = await thread_of(c)
    await c.runs.wait(id, "agent", input=FOO, interrupt_before=["tool"])
    await c.threads.update_state(id, {"messages": [{"role": "tool", "content": "mine", "tool_call_id": "x"}]}, as_node="tool")
    same((await c.threads.get_state(id))["next"], ["agent"])
    same(texts(await c.runs.wait(id, "agent", input=None)), ["foo", "begin", "mine", "end"])


@rule
async def the_state_inside_of_a_task_is_told_when_asked(c):
    id = await thread_of(c)
    await c.runs.wait(id, "nested", input={"messages": []}, config=ASKING)
    state = await c.threads.get_state(id, subgraphs=True)
    same(state["tasks"][0]["state"]["values"]["city"], "San Francisco")


@rule
async def a_state_is_not_changed_while_a_run_works(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"hang": 0}})
    await refused(c.threads.update_state(id, {"steps": ["x"]}, as_node="step"), 409)
    await c.runs.cancel(id, run["run_id"], wait=True)


# ------------------------------------------------------------------------------------------------------------- runs


@rule
async def a_wait_answers_the_values(c):
    same(texts(await c.runs.wait(await thread_of(c), "agent", input=FOO)), ANSWERS)


@rule
async def a_wait_for_what_fails_raises_or_tells_the_error(c):
    id = await thread_of(c)
    try:
        await c.runs.wait(id, "error", input=FOO)
        raise AssertionError("no error")
    except AssertionError:
        raise
    except Exception as error:
        holds("CustomError" in str(error) and "Boo!" in str(error), str(error))
    told = await c.runs.wait(id, "error", input=FOO, raise_error=False)
    same(told["__error__"]["error"], "CustomError")
    same((await c.threads.get(id))["status"], "error")


@rule
async def a_run_is_made_read_listed_and_joined(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "agent", input=FOO, metadata={"a": "b"})
    same(texts(await c.runs.join(id, run["run_id"])), ANSWERS)
    found = await c.runs.get(id, run["run_id"])
    same([found["status"], found["metadata"].get("a")], ["success", "b"])
    same([one["run_id"] for one in await c.runs.list(id)], [run["run_id"]])


@rule
async def runs_are_listed_by_status(c):
    id = await talked(c)
    run = await c.runs.create(id, "agent", input=FOO, after_seconds=300)
    same([one["run_id"] for one in await c.runs.list(id, status="pending")], [run["run_id"]])
    await c.runs.cancel(id, run["run_id"])


@rule
async def a_stream_begins_with_metadata_and_ends_with_the_values(c):
    parts = await streamed(c)
    same(parts[0].event, "metadata")
    holds(parts[0].data["run_id"], "run_id")
    same(texts(data_of(parts, "values")[-1]), ANSWERS)


@rule
async def a_stream_of_what_fails_ends_with_the_error(c):
    parts = await streamed(c, "error")
    last = parts[-1]
    same([last.event, last.data["error"], last.data["message"]], ["error", "CustomError", "Boo!"])


@rule
async def a_run_that_works_is_joined_to_its_end(c):
    id = await thread_of(c)
    given = {"configurable": {"delay": 150, "count": 4}}
    run = await c.runs.create(id, "steps", input={"steps": []}, config=given, stream_mode=["values"], stream_resumable=True)
    parts = await parts_of(c.runs.join_stream(id, run["run_id"], stream_mode=["values"]))
    same(len(data_of(parts, "values")[-1]["steps"]), 4)


@rule
async def a_run_that_is_over_is_joined_from_its_beginning(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "agent", input=FOO, stream_mode=["values"], stream_resumable=True)
    await c.runs.join(id, run["run_id"])
    parts = await parts_of(c.runs.join_stream(id, run["run_id"], last_event_id="-1"))
    same(texts(data_of(parts, "values")[-1]), ANSWERS)


@rule
async def a_cancelled_run_is_interrupted(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"hang": 0}})
    await until(lambda: c.runs.get(id, run["run_id"]), lambda one: one["status"] == "running")
    await c.runs.cancel(id, run["run_id"], wait=True)
    same((await c.runs.get(id, run["run_id"]))["status"], "interrupted")


@rule
async def a_run_that_is_rolled_back_leaves_no_state(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"hang": 1}})
    await until(lambda: c.threads.get_history(id), lambda list: len(list) > 1)
    await c.runs.cancel(id, run["run_id"], wait=True, action="rollback")
    same((await c.threads.get_state(id))["values"] or {}, {})


@rule
async def many_runs_are_cancelled_at_once(c):
    cancel = method(c.runs, "cancel_many")
    id = await thread_of(c)
    made = [await c.runs.create(id, "agent", input=FOO, after_seconds=300) for _ in range(2)]
    await cancel(thread_id=id, run_ids=[one["run_id"] for one in made])
    await until(lambda: c.runs.list(id, status="pending"), lambda list: list == [])


@rule
async def a_run_that_is_deleted_is_gone(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "agent", input=FOO)
    await c.runs.join(id, run["run_id"])
    await c.runs.delete(id, run["run_id"])
    await refused(c.runs.get(id, run["run_id"]), 404)


@rule
async def runs_are_made_in_a_batch(c):
    made = await c.runs.create_batch([{"assistant_id": "agent", "input": FOO}, {"assistant_id": "texts", "input": {"messages": ["x"]}}])
    same(len(made), 2)
    holds(all(one["run_id"] for one in made), "ids")


@rule
async def a_run_without_a_thread_answers_and_streams(c):
    same(texts(await c.runs.wait(None, "agent", input=FOO)), ANSWERS)
    parts = await parts_of(c.runs.stream(None, "agent", input=FOO))
    same(texts(data_of(parts, "values")[-1]), ANSWERS)


@rule
async def the_thread_of_a_run_without_one_is_kept_when_asked(c):
    run = await c.runs.create(None, "agent", input=FOO, on_completion="keep")
    await until(lambda: c.threads.get(run["thread_id"]), lambda one: one["status"] == "idle" and one["values"])
    same(texts((await c.threads.get_state(run["thread_id"]))["values"]), ANSWERS)


@rule
async def a_run_of_later_waits(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "agent", input=FOO, after_seconds=300)
    same((await c.runs.get(id, run["run_id"]))["status"], "pending")
    await c.runs.cancel(id, run["run_id"])


@rule
async def a_run_makes_its_thread_when_told_to(c):
    id = str(uuid.uuid4())
    await refused(c.runs.create(id, "agent", input=FOO), 404)
    same(texts(await c.runs.wait(id, "agent", input=FOO, if_not_exists="create")), ANSWERS)


@rule
async def an_assistant_that_is_not_there_is_404(c):
    id = await thread_of(c)
    await refused(c.runs.create(id, str(uuid.uuid4()), input=FOO), 404, 422)


@rule
async def the_recursion_limit_counts_supersteps(c):
    told = await c.runs.wait(await thread_of(c), "agent", input=FOO, config={"recursion_limit": 1}, raise_error=False)
    same(told["__error__"]["error"], "GraphRecursionError")


@rule
async def a_configuration_reaches_the_graph(c):
    given = {"configurable": {"word": "given"}}
    same((await c.runs.wait(None, "factory", input={"steps": []}, config=given))["steps"], ["word given"])


@rule
async def what_nodes_send_and_where_commands_go(c):
    same(sorted((await c.runs.wait(None, "fan", input={"steps": []}))["steps"]), ["worker 1", "worker 2"])
    same((await c.runs.wait(None, "going", input={"steps": []}))["steps"], ["here", "there"])


@rule
async def plain_texts_stay_plain(c):
    same((await c.runs.wait(None, "texts", input={"messages": ["hello"]}))["messages"], ["hello", "you said hello"])


@rule
async def messages_are_pairs_or_texts_too(c):
    same(texts(await c.runs.wait(None, "agent", input={"messages": [("user", "foo")]})), ANSWERS)
    same(texts(await c.runs.wait(None, "agent", input={"messages": "foo"})), ANSWERS)


@rule
async def a_second_run_is_refused_when_told_to(c):
    id = await thread_of(c)
    run = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"hang": 0}})
    await refused(c.runs.create(id, "steps", input={"steps": []}, multitask_strategy="reject"), 409, 422)
    await c.runs.cancel(id, run["run_id"], wait=True)


@rule
async def a_second_run_waits_for_the_first(c):
    id = await thread_of(c)
    first = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"delay": 100}})
    second = await c.runs.create(id, "steps", input={"steps": []}, multitask_strategy="enqueue", config={"configurable": {"count": 5}})
    await c.runs.join(id, second["run_id"])
    same((await c.runs.get(id, first["run_id"]))["status"], "success")
    same(len((await c.threads.get_state(id))["values"]["steps"]), 5)


@rule
async def a_second_run_waits_where_nothing_is_said(c):
    id = await thread_of(c)
    await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"delay": 100}})
    second = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"count": 5}})
    same(len((await c.runs.join(id, second["run_id"]))["steps"]), 5)


@rule
async def a_second_run_interrupts_the_first(c):
    id = await thread_of(c)
    first = await c.runs.create(id, "steps", input={"steps": []}, config={"configurable": {"hang": 1}})
    await until(lambda: c.threads.get_history(id), lambda list: len(list) > 1)
    second = await c.runs.create(id, "steps", input={"steps": []}, multitask_strategy="interrupt")
    await c.runs.join(id, second["run_id"])
    same((await c.runs.get(id, first["run_id"]))["status"], "interrupted")
    same((await c.runs.get(id, second["run_id"]))["status"], "success")


# ---------------------------------------------------------------------------------------------------------- the modes


@rule
async def values_are_streamed_a_superstep(c):
    same([len(one["messages"]) for one in data_of(await streamed(c, stream_mode="values"), "values")], [1, 2, 3, 4])


@rule
async def updates_name_the_nodes(c):
    same([list(one)[0] for one in data_of(await streamed(c, stream_mode="updates"), "updates")], ["agent", "tool", "agent"])


@rule
async def messages_are_streamed_in_pieces(c):
    pieces = [one[0]["content"] for one in data_of(await streamed(c, stream_mode="messages-tuple"), "messages")]
    same([piece for piece in pieces if piece], [*"begin", "tool_call__begin", *"end"])


@rule
async def a_piece_of_a_message_bears_its_node(c):
    [first, *_] = data_of(await streamed(c, stream_mode="messages-tuple"), "messages")
    same(first[1].get("langgraph_node"), "agent")


@rule
async def messages_grow_and_are_complete(c):
    parts = await streamed(c, stream_mode="messages")
    holds("messages/partial" in kinds(parts) and "messages/complete" in kinds(parts), kinds(parts))
    same(data_of(parts, "messages/partial")[-1][0]["content"], "end")


@rule
async def what_a_node_writes_is_streamed(c):
    same(data_of(await streamed(c, stream_mode="custom"), "custom"), [{"at": "agent"}, {"at": "agent"}])


@rule
async def tasks_begin_and_end(c):
    names = [one["name"] for one in data_of(await streamed(c, stream_mode="tasks"), "tasks")]
    same(names, ["agent", "agent", "tool", "tool", "agent", "agent"])


@rule
async def checkpoints_are_streamed_as_they_are_kept(c):
    found = data_of(await streamed(c, stream_mode="checkpoints"), "checkpoints")
    same([one["metadata"]["step"] for one in found], [-1, 0, 1, 2, 3])


@rule
async def debug_tells_checkpoints_and_tasks(c):
    found = [one["type"] for one in data_of(await streamed(c, stream_mode="debug"), "debug")]
    same([found.count(name) for name in ("checkpoint", "task", "task_result")], [5, 3, 3])


@rule
async def events_of_the_graph_are_streamed(c):
    found = {one["event"] for one in data_of(await streamed(c, stream_mode="events"), "events")}
    holds({"on_chain_start", "on_chain_end", "on_chat_model_stream"} <= found, found)


@rule
async def several_modes_are_streamed_at_once(c):
    parts = await streamed(c, stream_mode=["values", "updates", "custom"])
    same(set(kinds(parts)), {"metadata", "values", "updates", "custom"})


@rule
async def frames_of_a_graph_in_the_graph_bear_its_name(c):
    parts = await streamed(c, "nested", {"messages": []}, stream_mode=["updates"], stream_subgraphs=True)
    names = [part.event for part in parts[1:]]
    holds(any(name.startswith("updates|weather_graph:") for name in names) and "updates" in names, names)


# --------------------------------------------------------------------------------------------- questions and commands


@rule
async def a_question_stops_the_run_and_is_shown(c):
    id = await thread_of(c)
    told = await c.runs.wait(id, "agent", input=FOO, config=ASKING)
    same(told["__interrupt__"][0]["value"], "i want to know")
    thread = await c.threads.get(id)
    same(thread["status"], "interrupted")
    same([one["value"] for list in thread["interrupts"].values() for one in list], ["i want to know"])
    state = await c.threads.get_state(id)
    same([state["next"], state["tasks"][0]["interrupts"][0]["value"]], [["tool"], "i want to know"])


@rule
async def an_answer_resumes_the_run(c):
    id = await talked(c, config=ASKING)
    values = await c.runs.wait(id, "agent", command={"resume": "this"}, config=ASKING)
    same([texts(values), values["asked"]], [ANSWERS, "this"])
    same((await c.threads.get(id))["status"], "idle")


@rule
async def a_question_is_streamed_as_an_update(c):
    parts = await streamed(c, stream_mode=["updates"], config=ASKING)
    same(list(data_of(parts, "updates")[-1]), ["__interrupt__"])


@rule
async def a_question_inside_of_a_graph_in_the_graph_is_answered(c):
    id = await talked(c, "nested", {"messages": []}, config=ASKING)
    values = await c.runs.wait(id, "nested", command={"resume": "rainy"}, config=ASKING)
    same(texts(values), ["It is rainy in San Francisco"])


@rule
async def a_run_stops_before_a_node_and_goes_on(c):
    id = await thread_of(c)
    same(texts(await c.runs.wait(id, "agent", input=FOO, interrupt_before=["tool"])), ANSWERS[:2])
    same((await c.threads.get(id))["status"], "interrupted")
    same(texts(await c.runs.wait(id, "agent", input=None)), ANSWERS)


@rule
async def a_run_stops_after_every_node(c):
    id = await thread_of(c)
    same(texts(await c.runs.wait(id, "agent", input=FOO, interrupt_after="*")), ANSWERS[:2])
    same(texts(await c.runs.wait(id, "agent", input=None, interrupt_after="*")), ANSWERS[:3])


@rule
async def a_command_updates_the_state(c):
    id = await talked(c)
    await c.runs.wait(id, "agent", command={"update": {"asked": "by command"}})
    same((await c.threads.get_state(id))["values"]["asked"], "by command")


@rule
async def a_command_goes_to_a_node(c):
    id = await talked(c, "going", {"steps": []})
    same((await c.runs.wait(id, "going", command={"goto": "there"}))["steps"], ["here", "there", "there"])


@rule
async def a_run_branches_from_a_checkpoint(c):
    id = await talked(c)
    first = (await c.threads.get_history(id))[-1]
    given = {"messages": [{"role": "user", "content": "other"}]}
    values = await c.runs.wait(id, "agent", input=given, checkpoint_id=first["checkpoint"]["checkpoint_id"])
    same(texts(values), ["other", *ANSWERS[1:]])
    same(len(await c.threads.get_history(id, limit=50)), 10 - 1 if first["parent_checkpoint"] else 10)


# --------------------------------------------------------------------------------------------------------- assistants


@rule
async def every_graph_has_an_assistant(c):
    [found] = await c.assistants.search(graph_id="agent", metadata={"created_by": "system"})
    same([found["graph_id"], (await c.assistants.get(found["assistant_id"]))["name"]], ["agent", "agent"])


@rule
async def an_assistant_is_made_changed_and_removed(c):
    made = await c.assistants.create("agent", {"configurable": {"a": "b"}}, metadata={"x": "y"}, name="mine")
    id = made["assistant_id"]
    same([made["graph_id"], made["name"], made["version"]], ["agent", "mine", 1])
    changed = await c.assistants.update(id, metadata={"z": "w"}, config={"configurable": {"a": "c"}})
    same([changed["version"], changed["config"]["configurable"]["a"]], [2, "c"])
    same([one["version"] for one in await c.assistants.get_versions(id)], [2, 1])
    same((await c.assistants.set_latest(id, 1))["version"], 1)
    same((await c.assistants.get(id))["config"]["configurable"]["a"], "b")
    await c.assistants.delete(id)
    await refused(c.assistants.get(id), 404)


@rule
async def an_assistant_that_is_there_is_409_or_given(c):
    id = str(uuid.uuid4())
    await c.assistants.create("agent", assistant_id=id, metadata={"a": "b"})
    await refused(c.assistants.create("agent", assistant_id=id), 409)
    same((await c.assistants.create("agent", assistant_id=id, if_exists="do_nothing"))["metadata"].get("a"), "b")


@rule
async def assistants_are_counted(c):
    mark = str(uuid.uuid4())
    await c.assistants.create("agent", metadata={"mark": mark})
    same(await method(c.assistants, "count")(metadata={"mark": mark}), 1)


@rule
async def assistants_are_searched_by_metadata_in_pages(c):
    mark = str(uuid.uuid4())
    made = [(await c.assistants.create("agent", metadata={"mark": mark}))["assistant_id"] for _ in range(3)]
    found = await c.assistants.search(metadata={"mark": mark}, limit=2, offset=1)
    same([one["assistant_id"] for one in found], [made[1], made[0]])


@rule
async def a_run_of_an_assistant_has_its_configuration(c):
    made = await c.assistants.create("factory", {"configurable": {"word": "mine"}})
    same((await c.runs.wait(None, made["assistant_id"], input={"steps": []}))["steps"], ["word mine"])


@rule
async def a_graph_is_drawn(c):
    drawn = await c.assistants.get_graph(await assistant_of(c, "agent"))
    holds({"__start__", "agent", "tool", "__end__"} <= {str(one["id"]) for one in drawn["nodes"]}, drawn["nodes"])
    nested = await assistant_of(c, "nested")
    deep = await c.assistants.get_graph(nested, xray=True)
    holds(len(deep["nodes"]) > len((await c.assistants.get_graph(nested))["nodes"]), "with what is inside of it")


@rule
async def a_graph_tells_its_schemas_and_subgraphs(c):
    told = await c.assistants.get_schemas(await assistant_of(c, "agent"))
    holds("messages" in told["state_schema"]["properties"], told["state_schema"])
    same(list(await c.assistants.get_subgraphs(await assistant_of(c, "nested"))), ["weather_graph"])


# -------------------------------------------------------------------------------------------------------------- store


@rule
async def an_item_is_put_read_and_removed(c):
    space = [str(uuid.uuid4()), "a"]
    await c.store.put_item(space, "key", {"a": 1})
    found = await c.store.get_item(space, "key")
    same([found["value"], found["key"], found["namespace"]], [{"a": 1}, "key", space])
    await c.store.delete_item(space, "key")
    try:
        await c.store.get_item(space, "key")
        holds(False, "what is missing is 404, as LangGraph's server has it for this client")
    except Exception as error:
        same(getattr(getattr(error, "response", None), "status_code", str(error)), 404)


@rule
async def items_are_searched_by_prefix_and_filter(c):
    root = str(uuid.uuid4())
    for n in range(3):
        await c.store.put_item([root, f"s{n}"], "key", {"n": n})
    same(len((await c.store.search_items([root]))["items"]), 3)
    [found] = (await c.store.search_items([root], filter={"n": 1}))["items"]
    same(found["namespace"], [root, "s1"])
    same(len((await c.store.search_items([root], limit=2, offset=2))["items"]), 1)


@rule
async def namespaces_are_listed(c):
    root = str(uuid.uuid4())
    for path in (["a", "b"], ["a", "c"], ["d"]):
        await c.store.put_item([root, *path], "key", {"x": 1})
    found = (await c.store.list_namespaces(prefix=[root]))["namespaces"]
    same(sorted(found), [[root, "a", "b"], [root, "a", "c"], [root, "d"]])
    found = (await c.store.list_namespaces(prefix=[root], max_depth=2))["namespaces"]
    same(sorted(found), [[root, "a"], [root, "d"]])


@rule
async def what_a_graph_keeps_is_there(c):
    word = str(uuid.uuid4())
    steps = (await c.runs.wait(None, "keeping", input={"steps": [word]}))["steps"]
    same(steps, [word, f"last: {word}", f"last: {word}"])
    same((await c.store.get_item(["memories", "mine"], "last"))["value"], {"given": [word]})


# -------------------------------------------------------------------------------------------------------------- crons


@rule
async def a_cron_is_made_found_and_removed(c):
    id = await thread_of(c)
    made = await c.crons.create_for_thread(id, "agent", schedule="0 0 1 1 *", input=FOO)
    found = await c.crons.search(thread_id=id)
    same([one["cron_id"] for one in found], [made["cron_id"]])
    same([found[0]["schedule"], found[0]["thread_id"]], ["0 0 1 1 *", id])
    await c.crons.delete(made["cron_id"])
    same(await c.crons.search(thread_id=id), [])


@rule
async def a_cron_without_a_thread_is_found_by_its_assistant(c):
    assistant = (await c.assistants.create("agent"))["assistant_id"]
    made = await c.crons.create(assistant, schedule="0 0 1 1 *", input=FOO)
    same([one["cron_id"] for one in await c.crons.search(assistant_id=assistant)], [made["cron_id"]])
    await c.crons.delete(made["cron_id"])


@rule
async def crons_are_counted(c):
    count = method(c.crons, "count")
    id = await thread_of(c)
    made = await c.crons.create_for_thread(id, "agent", schedule="0 0 1 1 *", input=FOO)
    same(await count(thread_id=id), 1)
    await c.crons.delete(made["cron_id"])


@rule
async def a_schedule_that_is_none_is_refused(c):
    await refused(c.crons.create("agent", schedule="never", input=FOO), 400, 422)


# ---------------------------------------------------------------------------------------- RemoteGraph, and no asyncio


def remote(**more):
    try:
        from langgraph.pregel.remote import RemoteGraph
    except ImportError as error:
        raise Absent(str(error))
    return RemoteGraph("agent", url=URL, api_key=KEY, **more)


def at(thread, **more):
    return {"configurable": {"thread_id": thread, **more}}


@rule
async def a_remote_graph_is_called_and_read(c):
    id, graph = await thread_of(c), remote()
    same(texts(await graph.ainvoke(FOO, at(id))), ANSWERS)
    same([texts((await graph.aget_state(at(id))).values), (await graph.aget_state(at(id))).next], [ANSWERS, ()])
    same([len(one.values.get("messages", [])) async for one in graph.aget_state_history(at(id))], [4, 3, 2, 1, 0])


@rule
async def a_remote_graph_makes_its_thread(c):
    same(texts(await remote().ainvoke(FOO, at(str(uuid.uuid4())))), ANSWERS)


@rule
async def a_remote_graph_is_streamed(c):
    found = [part async for part in remote().astream(FOO, at(await thread_of(c)), stream_mode="updates")]
    same([list(one)[0] for one in found], ["agent", "tool", "agent"])
    found = [part async for part in remote().astream(FOO, at(await thread_of(c)), stream_mode=["values", "custom"])]
    same({part[0] for part in found}, {"values", "custom"})


@rule
async def a_remote_graph_is_updated(c):
    id, graph = await talked(c), remote()
    await graph.aupdate_state(at(id), {"messages": [{"role": "user", "content": "more"}]})
    same(texts((await graph.aget_state(at(id))).values), [*ANSWERS, "more"])


@rule
async def a_remote_graph_asks_and_is_answered(c):
    from langgraph.types import Command

    id, graph = await thread_of(c), remote()
    try:
        await graph.ainvoke(FOO, at(id, ask="know"))
    except Exception as error:
        holds("Interrupt" in type(error).__name__, repr(error))
    same((await graph.aget_state(at(id))).tasks[0].interrupts[0].value, "i want to know")
    same((await graph.ainvoke(Command(resume="this"), at(id, ask="know")))["asked"], "this")


@rule
async def a_remote_graph_is_drawn(c):
    drawn = await remote().aget_graph()
    holds({"agent", "tool"} <= set(drawn.nodes), drawn.nodes)


@rule
async def the_client_without_asyncio_waits_and_streams(c):
    def work():
        client = get_sync_client(url=URL, api_key=KEY)
        id = client.threads.create()["thread_id"]
        same(texts(client.runs.wait(id, "agent", input=FOO)), ANSWERS)
        parts = list(client.runs.stream(id, "agent", input=FOO, stream_mode="updates"))
        same([list(one)[0] for one in data_of(parts, "updates")], ["agent", "tool", "agent"])
        same(len(client.runs.list(id)), 2)

    await asyncio.to_thread(work)


async def tried(function, slots):
    async with slots:
        try:
            await asyncio.wait_for(function(client_of()), 90)
            return None
        except Absent:
            return "absent"
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:400]


async def main():
    part = sys.argv[3] if len(sys.argv) > 3 else ""
    chosen = {name: function for name, function in RULES.items() if part in name}
    slots = asyncio.Semaphore(4)
    results = await asyncio.gather(*(tried(function, slots) for function in chosen.values()))
    print(json.dumps(dict(zip(chosen, results))))


asyncio.run(main())
