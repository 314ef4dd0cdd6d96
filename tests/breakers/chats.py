"""Synthetic chats of a railway's assistant, and twenty ways to break the prefix that they share."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from uuid import UUID

Chat = dict[str, object]
RULES = [
    "You are the assistant of a railway company and answer questions of its passengers.",
    "State every price in euros, and say whether a reservation is included in it.",
    "Children below the age of six travel free of charge; a dog needs a ticket of its own.",
    "Never promise a refund: send the passenger to the counter, where the clerk decides.",
    "When a train is late by more than an hour, explain the passenger's rights in two sentences.",
    "Answer in the language of the question, in at most five sentences, without lists or tables.",
    "Do not talk about politics, about other companies, or about the people who work on the trains.",
]
EXAMPLES = [
    ("Does my bicycle need a ticket?", "Yes, it travels for nine euros on regional trains."),
    ("Can I take an earlier train?", "With a flexible ticket you can take any train of that day."),
    ("Where do I find my seat?", "The number of the coach and the seat stand on your ticket."),
    ("Is there food on the train?", "Long-distance trains have a bistro; regional trains have none."),
]
CITIES = ["Rome", "Milan", "Paris", "Lyon", "Vienna", "Prague", "Zurich", "Munich", "Porto", "Madrid", "Ghent", "Basel"]
NAMES = [
    "Anna Keller",
    "Bruno Maier",
    "Carla Rossi",
    "David Novak",
    "Elena Petrova",
    "Farid Haddad",
    "Greta Lind",
    "Hugo Blanc",
]
TOOLS = [
    {
        "type": "function",
        "function": {"name": name, "description": f"Looks up {name} of the railway.", "parameters": given},
    }
    for name, given in (
        ("timetable", {"type": "object", "properties": {"from": {"type": "string"}, "to": {"type": "string"}}}),
        ("fares", {"type": "object", "properties": {"class": {"type": "integer"}, "train": {"type": "string"}}}),
        ("delays", {"type": "object", "properties": {"train": {"type": "string"}, "day": {"type": "string"}}}),
    )
]
SYSTEM = "\n".join(RULES)


def question(at: int, draw: random.Random) -> str:
    one, two = draw.sample(CITIES, 2)
    asked = [
        "How do I get from {} to {}?",
        "Which train runs at night between {} and {}?",
        f"My name is {draw.choice(NAMES)}; is the train from {{}} to {{}} on 2026-05-{at % 28 + 1:02} sold out?",
    ]
    return asked[at % 3].format(one, two)


def chat(system: str, asked: str, *, shots: list[tuple[str, str]] | None = None, tools: object = None) -> Chat:
    shown = [
        {"role": role, "content": text}
        for pair in shots or []
        for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
    made: Chat = {
        "model": "m",
        "messages": [{"role": "system", "content": system}, *shown, {"role": "user", "content": asked}],
    }
    return {**made, "tools": tools} if tools is not None else made


def clean(count: int, seed: int = 0) -> list[Chat]:
    """Chats that share the system prompt and the tools to the last letter; some go on for several turns."""
    draw = random.Random(seed)
    rows = []
    for at in range(count):
        row = chat(SYSTEM, question(at, draw), shots=EXAMPLES[:2], tools=TOOLS)
        rows.append(row)
        if at % 3 == 0:
            messages = row["messages"]
            assert isinstance(messages, list)
            more = [{"role": "assistant", "content": "By train."}, {"role": "user", "content": question(at + 1, draw)}]
            rows.append({**row, "messages": [*messages, *more]})
    return rows


def _shuffled(draw: random.Random, value: object) -> object:
    """The value with the keys of its objects, and nothing else, in another order."""
    if isinstance(value, dict):
        keys = draw.sample(list(value), len(value))
        return {key: _shuffled(draw, value[key]) for key in keys}
    return [_shuffled(draw, item) for item in value] if isinstance(value, list) else value


def _before(text: Callable[[int, random.Random], str]) -> Callable[[int, random.Random], Chat]:
    return lambda at, draw: chat(f"{text(at, draw)}\n{SYSTEM}", question(at, draw))


def _within(text: Callable[[int, random.Random], str]) -> Callable[[int, random.Random], Chat]:
    """In the middle of a line, after the first rule."""
    return lambda at, draw: chat(" ".join([RULES[0], text(at, draw), *RULES[1:]]), question(at, draw))


def _uuid(draw: random.Random) -> str:
    return str(UUID(int=draw.getrandbits(128), version=4))


def _examples(at: int, draw: random.Random) -> Chat:
    shown = draw.sample(EXAMPLES, len(EXAMPLES))
    blocks = [f"Example {n}\nPassenger: {q}\nAssistant: {a}" for n, (q, a) in enumerate(shown, 1)]
    return chat("\n\n".join([SYSTEM, *blocks, "Now answer the passenger."]), question(at, draw))


def _documents(at: int, draw: random.Random) -> Chat:
    found = "\n\n".join(f"Document: {rule} {rule}" for rule in draw.sample(RULES, len(RULES)))
    return chat("Answer from the documents.", f"{found}\n\n{question(at, draw)}")


PLANTED: dict[str, tuple[str, Callable[[int, random.Random], Chat]]] = {
    "iso time": ("timestamp", _before(lambda at, draw: f"Current time: 2026-05-{at % 28 + 1:02}T10:{at % 60:02}:07Z")),
    "written date": ("timestamp", _before(lambda at, draw: f"Today is Monday, May {at % 28 + 1}, 2026.")),
    "clock": ("timestamp", _within(lambda at, draw: f"It is now {at % 12 + 1}:{at % 60:02} PM at the station.")),
    "epoch": ("timestamp", _before(lambda at, draw: f"ts={1_790_000_000 + 977 * at}")),
    "slashes": ("timestamp", _within(lambda at, draw: f"The timetable of {at % 28 + 1:02}/05/2026 is in force.")),
    "uuid": ("request_id", _before(lambda at, draw: f"[{_uuid(draw)}]")),
    "request number": ("request_id", _before(lambda at, draw: f"Request ID: req_{draw.getrandbits(40):x}")),
    "session": ("request_id", _within(lambda at, draw: f"This is session {draw.getrandbits(30)} of the service.")),
    "trace": ("request_id", _before(lambda at, draw: f"trace-id: {draw.getrandbits(64):016x}")),
    "greeting": ("user", _before(lambda at, draw: f"You are speaking to {NAMES[at % len(NAMES)]}.")),
    "user name": (
        "user",
        _within(lambda at, draw: f"The user's name is {NAMES[at % len(NAMES)]}, a regular passenger."),
    ),
    "customer": ("user", _before(lambda at, draw: f"Customer number: {40_000 + 13 * at}")),
    "mail": ("user", _before(lambda at, draw: f"Signed in as {NAMES[at % 8].split()[0].lower()}{at}@example.org")),
    "tool keys": ("json_order", lambda at, draw: chat(SYSTEM, question(at, draw), tools=_shuffled(draw, TOOLS))),
    "tool order": ("json_order", lambda at, draw: chat(SYSTEM, question(at, draw), tools=draw.sample(TOOLS, 3))),
    "json in text": (
        "json_order",
        lambda at, draw: chat(f"Your tools: {json.dumps(_shuffled(draw, TOOLS[0]))}\n{SYSTEM}", question(at, draw)),
    ),
    "examples": ("example_order", _examples),
    "shots": (
        "example_order",
        lambda at, draw: chat(SYSTEM, question(at, draw), shots=draw.sample(EXAMPLES, len(EXAMPLES))),
    ),
    "spaces": ("whitespace", lambda at, draw: chat(RULES[0] + " " * (at % 4 + 1) + SYSTEM, question(at, draw))),
    "line ends": (
        "whitespace",
        lambda at, draw: chat(SYSTEM.replace("\n", ("\n\n", "\r\n\r\n", "\n\n\n")[at % 3]), question(at, draw)),
    ),
}


def planted(name: str, count: int, seed: int = 0) -> list[Chat]:
    """Chats with that one cause, in which nothing else differs but the questions."""
    draw = random.Random(f"{name} {seed}")
    return [PLANTED[name][1](at, draw) for at in range(count)]
