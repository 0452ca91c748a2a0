"""What hostile commands can do: nothing outside, and the tools work again afterwards."""

import json
from pathlib import Path

import pytest
from cuda_agent.agent.tools.schemas import ArgumentError


def works_again(hand):
    # A verdict on what ran before may still be on its way; each failure starts a new server.
    return any(hand("Bash", command="echo alive").content == "alive" for _ in range(4))


@pytest.mark.parametrize(
    "command",
    [
        "kill -9 -1",
        ":(){ :|:& };: ; wait",
        "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'",
        "for i in $(seq 40); do setsid sleep 1000 & done; sleep 1000",
        "python3 -c 'x = bytearray(10**9); import time; time.sleep(1000)'",
        "for p in /proc/[0-9]*; do echo garbage > $p/fd/1; echo garbage > $p/fd/2; done 2>/dev/null; kill -STOP -1",
        "trap '' TERM; while :; do :; done",
    ],
    ids=["kill", "fork bomb", "doubling", "daemons", "memory", "liar", "hang"],
)
def test_ends_or_is_ended(hand, command, monkeypatch):
    monkeypatch.setattr("cuda_agent.agent.tools.client._GRACE_S", 3.0)
    (hand.folder / "kept").write_text("x")
    hand("Bash", 2.0, command=command)
    assert works_again(hand)
    assert (hand.folder / "kept").read_text() == "x"


def test_deletes_nothing_but_its_own_files(hand):
    outside = hand.folder.parent / "outside"
    outside.write_text("x")
    (hand.folder / "own").write_text("x")
    hand("Bash", command=f"rm -rf {outside} ./* /tmp /bin /boot /dev /etc /home /root /var")
    assert not (hand.folder / "own").exists()
    assert outside.exists()
    assert Path(__file__).exists()
    assert works_again(hand)


def test_sees_no_network_and_no_files_of_the_user(hand):
    text = hand.bad("Bash", command="exec 3<>/dev/tcp/127.0.0.1/22; cat < /dev/tcp/1.1.1.1/80")
    assert "refused" in text or "unreachable" in text
    (hand.folder.parent / "secret").write_text("hidden")
    assert "hidden" not in hand("Bash", command=f"cat {hand.folder.parent}/secret").content


def test_endless_output_is_bounded(hand):
    result = hand("Bash", 2.0, command="yes")
    assert result.failed
    assert len(result.content) < 31_000


def test_a_huge_file_stops_at_the_limit(hand, small):
    hand("Bash", command="head -c 100M /dev/zero > big")
    assert (hand.folder / "big").stat().st_size <= small.file_size_mb * 2**20


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[]",
        json.dumps({"id": 999, "content": "x", "failed": False}),
        json.dumps({"id": 2, "content": 5, "failed": False}),
        json.dumps({"id": 2, "content": "x" * 100_000, "failed": False}),
        "x" * 1_000_000,
    ],
)
def test_a_lying_server_is_replaced(hand, line, tmp_path):
    (hand.folder / "line").write_text(line + "\n")
    forge = "cat line > /proc/$PPID/fd/1; for f in /proc/$PPID/fd/*; do timeout 1 cat line > $f; done 2>/dev/null"
    hand("Bash", command=forge)
    assert works_again(hand)


def test_text_that_is_no_text_is_made_one(hand):
    (hand.folder / "x").write_bytes(b"\xed\xa0\x80\xff ok")
    text = hand.good("Bash", command="cat x")
    assert text.endswith("ok")
    text.encode()
    with pytest.raises(ArgumentError, match="unicode"):
        hand("Bash", command="echo \ud800")
