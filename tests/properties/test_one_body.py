"""Property: a body means the same pushed and replayed, and each of its steps takes effect once.

Bodies are random programs of questions, steps, branches, loops, scopes and concurrent branches; answers may be
refusals; the modern client answers a shuffled part of each round, and every round is served by a server started anew
with the same keys. The number of bodies is bounded by count, not by time: 5,000 in CI, fewer by default.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule.app.rounds.base import Rounds
from ferrule.app.rounds.keys import scoped
from ferrule.app.rounds.questions import elicit_question, roots_question, sample_question
from ferrule.app.rounds.run import rounds_of
from ferrule.app.rounds.settings import RoundsSettings, StateSettings
from ferrule.testing.bodies import question_text, run_in_rounds, run_pushed

BODIES = int(os.environ.get("FERRULE_BODIES", "400"))
BATCH = 100
KEY = b"a key of thirty-two bytes or more"


def program(rng: random.Random, depth: int = 0) -> list[Any]:
    """A random program: a nested list that `execute` interprets."""
    size = rng.randint(1, 3 if depth else 4)
    return ["seq", [statement(rng, depth) for _ in range(size)]]


def statement(rng: random.Random, depth: int) -> list[Any]:
    """One random statement; deeper ones are simpler."""
    kinds = ["ask", "ask", "sample", "roots", "step", "step", "sleep", "raise"]
    if depth < 3:
        kinds += ["gather", "gather", "branch", "loop", "scope", "tasks"]
    kind = rng.choices(kinds, [6, 6, 2, 1, 5, 5, 2, 1, *([3] * (len(kinds) - 8))])[0]
    number = rng.randrange(10_000)
    match kind:
        case "ask":
            return ["ask", number, rng.random() < 0.3]
        case "sample" | "step" | "roots":
            return [kind, number]
        case "sleep":
            return ["sleep", rng.choice([0, 0, 0.001])]
        case "raise":
            return ["raise", number, rng.random() < 0.3]
        case "branch":
            return ["branch", number, program(rng, depth + 1), program(rng, depth + 1)]
        case "loop":
            return ["loop", rng.randint(1, 3), program(rng, depth + 1)]
        case "scope":
            return ["scope", number, program(rng, depth + 1)]
        case _:
            bodies = [program(rng, depth + 1) for _ in range(rng.randint(1, 3))]
            return [kind, bodies if kind == "gather" else calm(bodies)]


def calm(node: Any) -> Any:
    """Without failures: which branch of a task group is cancelled by another's failure is a matter of timing."""
    if isinstance(node, list):
        return ["raise", node[1], False] if node[:1] == ["raise"] else [calm(each) for each in node]
    return node


class Interpreter:
    """Executes a program; `effects` collects what its steps did."""

    def __init__(self, effects: list[str]) -> None:
        self.effects = effects
        self.ticks = 0

    def effect(self, what: str) -> str:
        self.effects.append(what)
        return f"did {what}"

    async def run(self, rounds: Rounds, node: list[Any]) -> Any:
        match node:
            case ["seq", statements]:
                return [await self.run(rounds, each) for each in statements]
            case ["ask", number, explicit]:
                key = f"k{number}" if explicit else None
                answer = await rounds.ask(elicit_question(f"ask {number}", int, key=key))
                return [answer.action, answer.data]
            case ["sample", number]:
                result = await rounds.ask(sample_question(f"sample {number}", max_tokens=9))
                return result.model
            case ["roots", _]:
                return [root.uri for root in await rounds.ask(roots_question())]
            case ["step", number]:
                return await rounds.step(f"s{number}", self._step, f"{number}")
            case ["told", number]:
                self.ticks += 1
                return await rounds.step(f"s{number}", self._step, f"{number} after {self.ticks}")
            case ["sleep", seconds]:
                return await asyncio.sleep(seconds)
            case ["raise", number, really]:
                answer = await rounds.ask(elicit_question(f"raise {number}", int))
                if really and answer.accepted:
                    raise ValueError(number)
                return answer.action
            case ["branch", number, yes, no]:
                answer = await rounds.ask(elicit_question(f"branch {number}", int))
                return await self.run(rounds, yes if answer.accepted and answer.data % 2 else no)
            case ["tick"]:  # what branches do to each other shows in the order of their progress
                self.ticks += 1
                return self.ticks
            case ["race", bodies]:
                return await self._race(rounds, bodies)
            case ["loop", times, body]:
                return [await self.run(rounds, body) for _ in range(times)]
            case ["scope", number, body]:
                with scoped(f"n{number}"):
                    return await self.run(rounds, body)
            case ["gather", bodies]:
                return await rounds.gather(*(self.run(rounds, each) for each in bodies))
            case ["tasks", bodies]:
                async with asyncio.TaskGroup() as group:
                    tasks = []
                    for index, each in enumerate(bodies):
                        with scoped(f"t{index}"):
                            tasks.append(group.create_task(self.run(rounds, each)))
                return [task.result() for task in tasks]
        raise AssertionError(node)

    async def _race(self, rounds: Rounds, bodies: list[Any]) -> Any:
        tasks = []
        for index, each in enumerate(bodies):
            with scoped(f"r{index}"):
                tasks.append(asyncio.create_task(self.run(rounds, each)))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        first = min(index for index, task in enumerate(tasks) if task in done)
        return [first, tasks[first].result()]

    async def _step(self, what: str) -> str:
        await asyncio.sleep(0)
        return self.effect(what)


def answer(method: str, params: Mapping[str, Any]) -> Any:
    """The client: the same text always gets the same answer, some of them refusals."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///a"}]}
    if method == "sampling/createMessage":
        text = params["messages"][0]["content"]["text"]
        return {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": f"m {text}"}
    number = int.from_bytes(hashlib.sha256(params["message"].encode()).digest()[:4])
    if number % 10 < 2:
        return {"action": ("decline", "cancel")[number % 2]}
    return {"action": "accept", "content": {"value": number % 100}}


async def compare(seed: int) -> None:
    """One body, pushed and replayed in two ways."""
    rng = random.Random(seed)
    tree = program(rng)

    def body_with(effects: list[str]) -> Any:
        async def body(request: Any) -> Any:
            return await Interpreter(effects).run(rounds_of(request), tree)

        return body

    def settings() -> RoundsSettings:
        return RoundsSettings(state=StateSettings(keys=[KEY]), max_rounds=200, replay_wait_s=2)

    pushed_effects: list[str] = []
    pushed = await run_pushed(body_with(pushed_effects), answer)
    for shuffle in (None, random.Random(seed)):
        effects: list[str] = []
        replayed = await run_in_rounds(body_with(effects), answer, shuffle=shuffle, settings=settings)
        assert (replayed.value, replayed.error) == (pushed.value, pushed.error), tree
        assert sorted(effects) == sorted(pushed_effects), tree


@pytest.mark.parametrize("batch", range(max(BODIES // BATCH, 1)))
@pytest.mark.anyio
async def test_pushing_and_replaying_agree(batch: int) -> None:
    """Outcome and effects are equal in both eras, whatever the order and grouping of the answers."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        async with asyncio.timeout(60):
            await compare(seed)


def racing(node: Any, rng: random.Random, inside: bool = False) -> Any:
    """The same program where branches see each other's progress, and some of them race.

    No clock decides: steps stand outside of concurrent branches, where their end would race with answers.
    """
    if not isinstance(node, list) or not node:
        return node
    match node[0]:
        case "sleep":
            return ["tick"]
        case "step":
            return ["tick"] if inside else ["told", node[1]]
        case "raise":
            return ["ask", node[1], False]
        case "gather" | "tasks":
            kind = "race" if rng.random() < 0.3 else node[0]
            return [kind, [racing(each, rng, True) for each in node[1]]]
    return [racing(each, rng, inside) for each in node]


async def compare_in_order(seed: int) -> None:
    """One body whose branches depend on each other's order, answered in the same order in both eras."""
    rng = random.Random(seed)
    tree = racing(program(rng), rng)

    def body_with(effects: list[str]) -> Any:
        async def body(request: Any) -> Any:
            return await Interpreter(effects).run(rounds_of(request), tree)

        return body

    def order(text: str) -> str:
        return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()

    def settings() -> RoundsSettings:
        return RoundsSettings(state=StateSettings(keys=[KEY]), max_rounds=200, replay_wait_s=2)

    # The rounds come first: a reply may go out before a busy branch has asked, so they decide what is answered when.
    given: list[str] = []

    def noted(method: str, params: Mapping[str, Any]) -> Any:
        given.append(question_text(method, params))
        return answer(method, params)

    effects: list[str] = []
    replayed = await run_in_rounds(body_with(effects), noted, order=order, settings=settings)

    def as_given(text: str) -> int:
        return given.index(text) if text in given else len(given)

    def taken(method: str, params: Mapping[str, Any]) -> Any:
        given.remove(question_text(method, params))
        return answer(method, params)

    pushed_effects: list[str] = []
    pushed = await run_pushed(body_with(pushed_effects), taken, order=as_given)
    assert (replayed.value, replayed.error) == (pushed.value, pushed.error), tree
    assert sorted(effects) == sorted(pushed_effects), tree


@pytest.mark.anyio
@pytest.mark.parametrize("batch", range(max(BODIES // BATCH, 1)))
async def test_the_order_of_branches_is_reenacted(batch: int) -> None:
    """Branches that depend on each other's progress take the same ways in every round (a shortcut would not do)."""
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        async with asyncio.timeout(60):
            await compare_in_order(seed)
