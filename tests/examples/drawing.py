"""State diagrams in Mermaid, read as the moves they draw."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

Move = tuple[str, str]
EDGE = "[*]"
"""Where a diagram, or a frame in it, begins and ends."""

_ARROW = re.compile(r"(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: .+)?")
_FRAME = re.compile(r'state "[^"]+" as (\w+) \{')
_STATE = re.compile(r"\w+")


@dataclass
class _Frame:
    """A state that holds others."""

    states: list[str] = field(default_factory=list)
    first: str = ""

    def entry(self) -> list[str]:
        """Where an arrow into it may lead: to its first state, or anywhere where none is the first."""
        return [self.first] if self.first else self.states


@dataclass
class Drawing:
    """Every arrow and every frame of one diagram."""

    arrows: list[Move] = field(default_factory=list)
    frames: dict[str, _Frame] = field(default_factory=dict)

    def moves(self) -> set[Move]:
        """The moves drawn, frames unfolded, beginnings and ends of the diagram left out."""
        return {
            (before, after)
            for source, target in self.arrows
            for before in (self.frames[source].states if source in self.frames else [source])
            for after in (self.frames[target].entry() if target in self.frames else [target])
            if EDGE not in (before, after)
        }


def drawing(text: str) -> Drawing:
    """Read a diagram; a line that is not understood is a mistake."""
    header, *lines = [line.strip() for line in text.strip().splitlines()]
    assert header == "stateDiagram-v2", header
    drawn = Drawing()
    frame: _Frame | None = None
    for line in lines:
        if opened := _FRAME.fullmatch(line):
            frame = drawn.frames.setdefault(opened[1], _Frame())
        elif line == "}":
            frame = None
        elif arrow := _ARROW.fullmatch(line):
            _add(drawn, frame, (arrow[1], arrow[2]))
        else:
            assert frame is not None, line
            assert _STATE.fullmatch(line), line
            frame.states.append(line)
    return drawn


def _add(drawn: Drawing, frame: _Frame | None, arrow: Move) -> None:
    drawn.arrows.append(arrow)
    if frame is None:
        return
    frame.states += [state for state in dict.fromkeys(arrow) if state != EDGE and state not in frame.states]
    if arrow[0] == EDGE:
        frame.first = arrow[1]
