import re
from pathlib import Path

from cuda_agent.figures.pipeline import pipeline

ROOT = Path(__file__).parents[2]


def outline(svg):
    """What a change of the picture changes, and another version of the font's rasteriser does not."""
    return re.search(rb"viewBox=\"[^\"]*\"", svg).group(), svg.count(b"<use "), svg.count(b'<g id="patch')


def test_the_picture_in_git_is_what_the_code_draws():
    kept = (ROOT / "docs" / "pipeline.svg").read_bytes()
    assert outline(kept) == outline(pipeline()), (
        "draw it again: python -m cuda_agent.figures.pipeline docs/pipeline.svg"
    )
