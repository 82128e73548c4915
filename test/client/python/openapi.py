"""What schemathesis is told beside the description: ids that are there, so that requests reach further than a 404, and what
ends sessions without one."""

import json
import os
import random
import uuid

import schemathesis

PLACES = json.loads(os.environ["PLACES"])
COOKIE = os.environ["COOKIE"]
CSRF = os.environ["CSRF"]
STREAM_SECONDS = float(os.environ["STREAM_SECONDS"])
# Asked without a session: they would end the one that all others need.
SIGNING_OUT = ("/api/v1/auth/logout", "/api/v1/auth/sessions/end", "/api/v1/auth/change-password")
DELETING = ("/api/v1/auth/me", "/api/v1/auth/sessions")
chance = random.Random(1)


@schemathesis.hook
def before_call(ctx, case, kwargs):
    headers = case.headers
    # The stream of a thread has no end: what comes within these seconds is looked at.
    if "/stream" in case.path:
        kwargs["timeout"] = (10, STREAM_SECONDS)
    # Who waits for a run that begins next year waits until then.
    if isinstance(case.body, dict):
        case.body.pop("after_seconds", None)
    if case.path in SIGNING_OUT or (case.method == "DELETE" and case.path in DELETING):
        headers.pop("Cookie", None)
        return
    headers["Cookie"] = COOKIE
    # Three of four say it right: the others are refused at the door.
    if case.method != "GET" and chance.random() < 0.75:
        headers["X-CSRF-Token"] = CSRF
    # One of four asks for what was made up. What is deleted is made up always, and nothing runs out.
    # Of nobody: answers have taught it the ids of the user and the session that all others need.
    for name in ("user_id", "session_id"):
        if name in (case.path_parameters or {}):
            case.path_parameters[name] = str(uuid.UUID(int=chance.getrandbits(128), version=4))
    if case.path_parameters and case.path != "/api/threads/{thread_id}" and chance.random() < 0.75:
        place = chance.choice(PLACES)
        for name in case.path_parameters:
            if name in place:
                case.path_parameters[name] = place[name]
