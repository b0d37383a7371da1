"""Programs in MLIR text, and what may happen to a text."""

from __future__ import annotations

import random
import re

_WORDS = re.compile(r"[%@#!\w.?<>:]+")
_NUMBERS = re.compile(r"\d+")
_SIZES = ("0", "1", "-1", "7", "4294967296", "9" * 19, "9" * 40, "?", "1" * 5000, "0x7F", "1.5e400")
_PIECES = (
    "<", ">", "(", ")", "{", "}", '"', "%x", "-1", "?", "x", "->", ":", ",", "dense<", "tensor<", "@a", "^bb0", "#",
    "!", "loc(", "\\", "\x00", "é", "\n", "//", "=", "[", "]", "// -----\n", "i1", "i64", "module {",
    "func.func @main() {\nreturn\n}", "!quant.uniform<i8:f32, 0.5:1>", "affine_map<() -> ()>", "{-#", "dense<> : ",
)
_OPEN = ("(", "{", "[", "<", "tensor<", "tuple<", "({", "dense<", "module {", "{a = ", "loc(", "complex<", "[[", '"')


def _changed_byte(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + chr(rng.randrange(256)) + text[at + 1 :]


def _without_a_line(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    del lines[rng.randrange(len(lines))]
    return "\n".join(lines)


def _with_a_line_again(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return "\n".join(lines)


def _another_number(text: str, rng: random.Random) -> str:
    found = list(_NUMBERS.finditer(text))
    if not found:
        return text
    number = rng.choice(found)
    return text[: number.start()] + rng.choice(_SIZES) + text[number.end() :]


def _another_word(text: str, rng: random.Random) -> str:
    found = list(_WORDS.finditer(text))
    if not found:
        return text
    place, word = rng.choice(found), rng.choice(found)
    return text[: place.start()] + word[0] + text[place.end() :]


def _deeper(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(_OPEN) * rng.choice((10, 100, 3000)) + text[at:]


def _shorter(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.randrange(1, 200) :]


def _repeated(text: str, rng: random.Random) -> str:
    start, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[:start] + text[start:end][:5000] + text[start:]


def _with_a_piece(text: str, rng: random.Random) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(_PIECES) + text[at:]


_KINDS = (
    _changed_byte, _without_a_line, _with_a_line_again, _another_number, _another_number, _another_number,
    _another_word, _another_word, _deeper, _shorter, _repeated, _with_a_piece, _with_a_piece,
)


def mutated(text: str, rng: random.Random) -> str:
    """The text with one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice(_KINDS)(text, rng)
    return text
