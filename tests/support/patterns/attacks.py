"""Texts that make a pattern backtrack, made from its own structure, and how the time of a reader grows with them.

Each repeat of a pattern is pumped: a text of what its body takes, many times over, behind what leads to it and before what no
part of the pattern takes.
"""

from __future__ import annotations

import gc
import itertools
import re
import time
from collections.abc import Callable, Iterator
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

LENGTHS = (16, 20, 400, 5_000, 20_000)
FLOOR_SECONDS = 0.005  # below it no growth is judged: the clock and the machine weigh more
MAX_RATIO = 8.0  # of the times at four times the length: 4 where they grow linearly, 16 quadratically
ATTEMPTS = 4
_ENDS = ("", "\x00", "!", "\n\x00")  # what follows the pumped text: hardly any pattern takes all of them
_VARIANTS = 4
_REPEATS = frozenset({codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT})
_CATEGORIES = {
    codes.CATEGORY_DIGIT: "1",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_NOT_WORD: "-",
}
_OTHERS = "a1 -'\"`(/.\\\n;é"  # what a negated set is tried with


def attacks(pattern: str, flags: int) -> Iterator[Callable[[int], str]]:
    """Yields makers of texts of a given length."""
    tree = parser.parse(pattern, flags)
    pumps: dict[str, str] = {}
    for prefix, bodies in _repeats(tree, ""):
        for body in filter(None, bodies):
            pumps.setdefault(body, prefix)
    whole = [text for text in _samples(tree) if text]
    units = [(prefix, body) for body, prefix in pumps.items()]
    units += [(prefix, prefix + body) for body, prefix in pumps.items() if prefix]
    units += [("", text) for text in whole]
    units += [(pumps[first], first + second) for first, second in itertools.permutations(list(pumps)[:5], 2)]
    for (prefix, unit), end in itertools.product(dict.fromkeys(units), _ENDS):
        yield (
            lambda length, prefix=prefix, unit=unit, end=end: prefix + (unit * (length // len(unit) + 1))[:length] + end
        )


def _repeats(tree: Any, before: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the bodies of all repeats without a small bound, with a text that leads to each."""
    for code, argument in tree:
        if code in _REPEATS:
            _, most, body = argument
            if most > 16:
                yield before, _samples(body)
            yield from _repeats(body, before)
        elif code is codes.SUBPATTERN:
            yield from _repeats(argument[3], before)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from _repeats(branch, before)
        elif code is codes.ATOMIC_GROUP:
            yield from _repeats(argument, before)
        elif code in (codes.ASSERT, codes.ASSERT_NOT):
            yield from _repeats(argument[1], before)
        before += next(iter(_node(code, argument)), "")


def _samples(tree: Any) -> list[str]:
    """Some texts that a sequence takes, each repeat with its least number of turns, at least one."""
    texts = [""]
    for code, argument in tree:
        nodes = _node(code, argument)
        count = max(len(texts), len(nodes))
        texts = [texts[i % len(texts)] + nodes[i % len(nodes)] for i in range(count)] if nodes else texts
    return list(dict.fromkeys(texts))


def _node(code: Any, argument: Any) -> list[str]:
    if code is codes.LITERAL:
        return [chr(argument)]
    if code is codes.NOT_LITERAL:
        return [next(char for char in _OTHERS if char != chr(argument))]
    if code is codes.ANY:
        return ["a", " ", "'"]
    if code is codes.IN:
        return _members(argument)
    if code in _REPEATS:
        least, _, body = argument
        return [text * max(1, least) for text in _samples(body)]
    if code is codes.SUBPATTERN:
        return _samples(argument[3])
    if code is codes.ATOMIC_GROUP:
        return _samples(argument)
    if code is codes.BRANCH:
        return [text for branch in argument[1] for text in _samples(branch)[:_VARIANTS]]
    return [""]  # a place in the text, or what was looked at ahead


def _members(items: list[tuple[Any, Any]]) -> list[str]:
    """Members of a set, some of each kind."""
    if items[0][0] is codes.NEGATE:
        taken = re.compile(_negated(items[1:]))
        return [char for char in _OTHERS if taken.match(char)][:_VARIANTS]
    found: list[str] = []
    for code, argument in items:
        if code is codes.LITERAL:
            found.append(chr(argument))
        elif code is codes.RANGE:
            found.append(chr(argument[0]))
        else:
            found.append(_CATEGORIES[argument])
    return found


def _negated(items: list[tuple[Any, Any]]) -> str:
    names = {
        codes.CATEGORY_DIGIT: r"\d",
        codes.CATEGORY_SPACE: r"\s",
        codes.CATEGORY_WORD: r"\w",
        codes.CATEGORY_NOT_DIGIT: r"\D",
        codes.CATEGORY_NOT_SPACE: r"\S",
        codes.CATEGORY_NOT_WORD: r"\W",
    }
    parts = []
    for code, argument in items:
        if code is codes.LITERAL:
            parts.append(re.escape(chr(argument)))
        elif code is codes.RANGE:
            parts.append(f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}")
        else:
            parts.append(names[argument])
    return f"[^{''.join(parts)}]"


def growth(read: Callable[[str], object], text: Callable[[int], str], lengths: tuple[int, ...] = LENGTHS) -> str | None:
    """Returns how the time of a reader grows more than linearly with the length of a text, None if it does not.

    It is the time of this thread alone, from short texts on. A slow reading is repeated: what is left of a burst of others is no
    growth.
    """
    for length in lengths:
        long, quarter = text(length), text(length // 4)
        took = _seconds(read, long)
        if took < FLOOR_SECONDS:
            continue
        before = _seconds(read, quarter)
        for _ in range(ATTEMPTS):
            if took <= MAX_RATIO * before:
                break
            took, before = min(took, _seconds(read, long)), max(before, _seconds(read, quarter))
        else:
            return f"{took:.3f} s for {length:,} characters, {before:.4f} s for a quarter of them"
    return None


def _seconds(read: Callable[[str], object], text: str) -> float:
    """The time of one reading, without that of collecting what other tests have left."""
    gc.disable()
    try:
        begun = time.thread_time()
        read(text)
        return time.thread_time() - begun
    finally:
        gc.enable()


def reader(pattern: re.Pattern[str], method: str) -> Callable[[str], object]:
    """Returns what reads a text with one method of a pattern, as often as that finds something."""
    match method:
        case "sub" | "subn":
            return lambda text: pattern.sub("", text)
        case "finditer" | "findall":
            return pattern.findall
        case _:
            read: Callable[[str], object] = getattr(pattern, method)
            return read
