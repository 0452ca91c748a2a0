"""What two runs of the same conversation may differ in: times, process ids, addresses, folders, random trials."""

from __future__ import annotations

import re

_NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?"
_REAL = r"[-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)"
_UNIT = r"(?: ?(?:ns|us|µs|μs|ms|s|sec|secs|seconds?|minutes?|min|[KMGT]i?B/s|[GT]FLOPS?|[GT]FLOP/s)|x|%)"
_MONTH = r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_MODE = r"[rwxsStT-]{9}[.+@]?"
_RULES = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?"), "<time>"),
    (re.compile(rf"{_MONTH} +\d{{1,2}} +(?:\d\d:\d\d(?::\d\d)?|\d{{4}})"), "<time>"),
    (re.compile(r"\b\d\d:\d\d(?::\d\d(?:\.\d+)?)?\b"), "<time>"),
    # ls -l: links, owner and group, and the sizes of folders, which are those of the file system.
    (re.compile(r"(?m)^total \d+$"), "total <blocks>"),
    (re.compile(rf"(?m)^(d{_MODE}) +\d+ +\S+ +\S+ +\d+ "), r"\1 <owner> <size> "),
    (re.compile(rf"(?m)^([-lps]{_MODE}) +\d+ +\S+ +\S+ +(\d+) "), r"\1 <owner> \2 "),
    (re.compile(r"\b0x[0-9a-fA-F]{6,}"), "<address>"),
    (re.compile(r"(?i)\b(pid|process|ppid|tid)([ :=]+)\d+"), r"\1\2<pid>"),
    (re.compile(r"(?m)^\[(\d+)\] \d+$"), r"[\1] <pid>"),
    (re.compile(r"/(?:tmp|var/tmp|dev/shm)/(?!workspace\b)[^\s'\":,)]+"), "<folder>"),
    # A line of utils.profiling, and what utils.verification says of inputs that it drew.
    (re.compile(rf"(?m)^(ModelNew|eager|torch\.compile)\b[ ]+{_NUMBER}.*$"), r"\1 <times>"),
    (re.compile(rf"\b(by up to )(?:{_NUMBER}|nan|inf)"), r"\1<number>"),
    (re.compile(rf"\b(difference|error)([ :=]+){_REAL}"), r"\1\2<number>"),
    (re.compile(rf"(?<![\w.,]){_NUMBER}{_UNIT}(?![\w/])"), "<measured>"),
]


def normalise(text: str) -> str:
    """The text with all that is measured replaced by what it is, and without blanks at the ends of lines."""
    for pattern, what in _RULES:
        text = pattern.sub(what, text)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def first_difference(recorded: str, seen: str) -> str | None:
    """The first line in which two texts differ once normalised, in words; None if they do not."""
    old, new = normalise(recorded).split("\n"), normalise(seen).split("\n")
    for number, (a, b) in enumerate(zip(old, new, strict=False), 1):
        if a != b:
            return f"line {number}: recorded {a[:300]!r}, now {b[:300]!r}"
    if len(old) != len(new):
        return f"{len(old)} lines were recorded, now there are {len(new)}"
    return None
