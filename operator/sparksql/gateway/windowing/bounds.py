"""The arithmetic of windows, as SQL over a row's time in microseconds.

Windows are cut at 1970-01-01 00:00 plus the offset. Where they are of whole days, and the times are TIMESTAMPs, days are those of
the session's time zone, with 23 or 25 hours when its clocks change; steps within such a day count from its beginning, and a HOP
whose slide is a part of a day ends with the same step of a later day as it began with. Shorter windows are cut in UTC.
TIMESTAMP_NTZ has no zone.

No functions of higher order are used: Spark numbers their variables anew in each analysis, and what a stream keeps in its state
must be told by the same words after a restart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sparksql.gateway.windowing.calls import DAY, Function, WindowCall

MICROS = "__window_micros"  # the time that a row's windows are found by
START, END = "__window_start", "__window_end"  # microseconds
_CUT = "__window_cut"  # MICROS on the clock that windows are cut by
_SHOWN, _SHOWN_START = "__window_shown", "__window_shown_start"
_CUT_START, _CUT_END = "__window_cut_start", "__window_cut_end"
_STEP_END = "__window_step_end"
_BEGUN = "__window_begun"  # the block of whole days that MICROS is in
_PASSED = "__window_passed"  # the slides since it began
_BLOCK, _BLOCK_START, _BLOCK_END = "__window_block", "__window_block_start", "__window_block_end"
_SLIDE, _LATER = "__window_slide", "__window_later"  # a slide of a block, and the block that is SIZE later
_NAME = re.compile(r"__window_\w+")
_GENERATOR = "explode("

Stages = tuple[tuple[str, str], ...]  # columns by name and SQL, each of those before it


def stages(call: WindowCall, zone: str | None) -> Stages:
    """Returns the columns that lead from MICROS to START and END.

    One of them is a generator where a row is in several windows. `zone` is None for UTC, and for times without a zone.
    """
    by_days, by_parts_of_days = _clock(call, zone)
    step = f"{call.step}L"
    match call.function:
        case Function.TUMBLE:
            bounds = ((_CUT_START, _floor(call.size, call.offset)), (_CUT_END, f"{_CUT_START} + {call.size}L"))
        case Function.HOP if by_parts_of_days:
            return _hops(call, zone)
        case Function.HOP:
            first = f"{_CUT} - {call.size - 1}L"
            starts = f"explode(sequence({_floor(call.step, call.offset)}, {first}, -{step}))"
            bounds = ((_CUT_START, starts), (_CUT_END, f"{_CUT_START} + {call.size}L"))
        case Function.CUMULATE if by_parts_of_days:
            last = f"{START} + (({_CUT_END} - {START} + {call.step - 1}L) div {step}) * {step}"
            ends = f"explode(sequence({START} + ({_steps(call)} + 1L) * {step}, {last}, {step}))"
            return (*_days(call, zone), (_STEP_END, ends), (END, f"least({_STEP_END}, {_CUT_END})"))
        case Function.CUMULATE:
            first = f"{_CUT_START} + (({_CUT} - {_CUT_START}) div {step} + 1L) * {step}"
            ends = f"explode(sequence({first}, {_CUT_START} + {call.size}L, {step}))"
            bounds = ((_CUT_START, _floor(call.size, call.offset)), (_CUT_END, ends))
        case Function.SESSION:
            raise ValueError("a session's bounds are no arithmetic")
    cut = _clock_stages(call, zone, math.gcd(call.size, call.step)) if by_days else ((_CUT, MICROS),)
    start, end = (_instant(name, zone) if by_days else name for name in (_CUT_START, _CUT_END))
    return (*cut, *bounds, (START, start), (END, end))


def pane_stages(call: WindowCall, zone: str | None) -> Stages:
    """Returns the same for the one pane that MICROS is in: the shortest span that all windows are made of."""
    by_days, by_parts_of_days = _clock(call, zone)
    if by_parts_of_days and call.function in (Function.CUMULATE, Function.HOP):
        begin, step = "__window_days_start", f"{call.step}L"
        counted = replace(call, size=_block(call)) if call.function is Function.HOP else call
        days = tuple((begin if name == START else name, sql) for name, sql in _days(counted, zone))
        passed = f"(({MICROS} - {begin}) div {step})"
        end = f"least({begin} + ({passed} + 1L) * {step}, {_CUT_END})"
        return (*days, (START, f"{begin} + {passed} * {step}"), (END, end))
    size = call.step if call.function is Function.CUMULATE else math.gcd(call.size, call.step)
    return stages(replace(call, function=Function.TUMBLE, size=size, step=size), zone if by_days else None)


def layers(made: Stages, wanted: Sequence[str]) -> tuple[Stages, ...]:
    """Returns stages as the fewest projections, one above the other: Spark analyses each, which takes longer than to read it.

    A name is written out where it is used, and the last projection has no more than what is `wanted`. Columns that a generator
    is beside are known by their names above it. Spark takes one generator in a projection.
    """
    below: list[Stages] = []
    known: set[str] = set()
    meant: dict[str, str] = {}
    for name, sql in made:
        text = _written_out(sql, meant)
        if text.startswith(_GENERATOR):
            beside = tuple((each, _plain(meaning)) for each, meaning in meant.items() if each not in known)
            below.append((*beside, (name, text)))
            known |= {name, *meant}
            meant = {each: each for each in known}
        else:
            meant[name] = f"({text})"
    above = tuple((name, _plain(meant[name])) for name in wanted if name not in known)
    return (*below, above)


def _written_out(sql: str, meant: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: meant.get(found[0], found[0]), sql)


def _plain(meaning: str) -> str:
    return meaning[1:-1] if meaning.startswith("(") else meaning


def _clock(call: WindowCall, zone: str | None) -> tuple[bool, bool]:
    """Whether windows are cut by days of the zone: their bounds all of them, or only where SIZE begins and ends."""
    days = zone is not None and call.size % DAY == 0
    whole = call.step % DAY == 0
    return days and whole, days and not whole


def is_uneven_in_days(call: WindowCall) -> bool:
    """Returns whether a HOP of whole days has a slide that is a part of a day and does not divide its size.

    Only a clock that never changes says where its windows are: docs/windows.md.
    """
    is_hop = call.function is Function.HOP and call.size % DAY == 0
    return is_hop and call.step % DAY != 0 and call.size % call.step != 0


def _block(call: WindowCall) -> int:
    """The whole days that the slides of a HOP are counted from the beginning of: one, unless a slide does not divide a day."""
    return math.lcm(call.step, DAY)


def _hops(call: WindowCall, zone: str | None) -> Stages:
    """START and END of the windows of whole days, of which a new one begins with each slide of a block of days.

    Those that MICROS is in began in its own block with the slides that have passed, with any of the blocks between, or in the
    block that is SIZE before with the slides that are to come: that one's windows end in MICROS's block.
    """
    block, step = _block(call), f"{call.step}L"
    base = _floor(block, call.offset)
    first = f"CASE WHEN {_BLOCK} = {_BEGUN} - {call.size}L THEN {_PASSED} + 1L ELSE 0L END"
    every = f"({_BLOCK_END} - {_BLOCK_START} + {call.step - 1}L) div {step} - 1L"
    last = f"CASE WHEN {_BLOCK} = {_BEGUN} THEN {_PASSED} ELSE {every} END"
    later = f"{_BLOCK} + {call.size}L"
    return (
        *_clock_stages(call, zone, block),
        (_BEGUN, base),
        (_PASSED, f"({MICROS} - {_instant(_BEGUN, zone)}) div {step}"),
        (_BLOCK, f"explode(sequence({_BEGUN}, {_BEGUN} - {call.size}L, -{block}L))"),
        (_BLOCK_START, _instant(_BLOCK, zone)),
        (_BLOCK_END, _instant(f"{_BLOCK} + {block}L", zone)),
        (_SLIDE, f"explode(CASE WHEN {first} <= {last} THEN sequence({first}, {last}) END)"),
        (_LATER, f"{_instant(later, zone)} + {_SLIDE} * {step}"),
        (START, f"{_BLOCK_START} + {_SLIDE} * {step}"),
        (END, f"least({_LATER}, {_instant(f'{later} + {block}L', zone)})"),
    )


def _days(call: WindowCall, zone: str | None) -> Stages:
    """START and _CUT_END: the instants at which the days of a CUMULATE begin and end."""
    base = _floor(call.size, call.offset)
    return (
        *_clock_stages(call, zone, call.size),
        (_CUT_END, _instant(f"{base} + {call.size}L", zone)),
        (START, _instant(base, zone)),
    )


def _steps(call: WindowCall) -> str:
    """The whole steps between START and MICROS."""
    return f"(({MICROS} - {START}) div {call.step}L)"


def _floor(size: int, offset: int, time: str = _CUT) -> str:
    shift = offset % size
    return f"{time} - pmod({f'{time} - {shift}L' if shift else time}, {size}L)"


def _clock_stages(call: WindowCall, zone: str | None, length: int) -> Stages:
    """_CUT, what the clock of the zone shows, for bounds that lie whole `length`s apart.

    A bound within an hour that the clock shows twice or never has times on the wrong side of it: they are put on the other.
    """
    if not call.offset % DAY:
        return ((_CUT, _local(zone)),)
    end = f"{_SHOWN_START} + {length}L"
    before, behind = (f"{_instant(_SHOWN_START, zone)} > {MICROS}", f"{_instant(end, zone)} <= {MICROS}")
    return (
        (_SHOWN, _local(zone)),
        (_SHOWN_START, _floor(length, call.offset, _SHOWN)),
        (_CUT, f"CASE WHEN {before} THEN {_SHOWN_START} - 1L WHEN {behind} THEN {end} ELSE {_SHOWN} END"),
    )


def _local(zone: str | None) -> str:
    return f"unix_micros(from_utc_timestamp(timestamp_micros({MICROS}), '{zone}'))"


def _instant(local: str, zone: str | None) -> str:
    return f"unix_micros(to_utc_timestamp(timestamp_micros({local}), '{zone}'))"
