"""Bash, BashOutput and KillBash."""

import os

from cuda_agent.agent.tools.text import MAX_CHARS, Tail, cut
from hypothesis import given
from hypothesis import strategies as st


def test_a_shell_starts_in_the_workspace_and_its_folder_carries_over(hand):
    assert hand.good("Bash", command="pwd") == hand.tools.shown_folder
    hand.bad("Bash", command="mkdir a && cd a && exit 3")
    assert hand.good("Bash", command="pwd") == f"{hand.tools.shown_folder}/a"
    assert hand.good("Bash", command="x=1; rmdir ../a; echo $x") == "1"
    assert hand.good("Bash", command="echo -$x; pwd") == f"-\n{hand.tools.shown_folder}"


def test_the_folder_of_the_machine_is_not_shown(hand):
    shown = hand.good("Bash", command="pwd -P; python3 -c 'import os; print(os.getcwd())'; echo $HOME")
    assert str(hand.folder) not in shown


def test_exit_status_and_both_streams_are_shown(hand):
    text = hand.bad("Bash", command="echo out; echo err >&2; (exit 7)")
    assert text.splitlines() == ["out", "err", "Exit code 7"]
    assert "syntax error" in hand.bad("Bash", command="if")
    assert hand.good("Bash", command="true") == "(no output)"
    assert hand.bad("Bash", command="kill -SEGV $$").endswith("Exit code 139")


def test_a_command_past_its_time_is_ended_and_what_it_printed_is_kept(hand):
    text = hand.bad("Bash", command="echo early; sleep 1000", timeout=300)
    assert text.startswith("early")
    assert "time limit" in text
    assert hand("Bash", 0.3, command="sleep 1000", timeout=900_000).failed


def test_what_a_command_leaves_running_is_ended_with_it(hand):
    hand.good("Bash", command="sleep 1234 & echo $! > pid")
    assert "gone" in hand.good("Bash", command="kill -0 $(cat pid) 2>/dev/null || echo gone")


def test_no_variable_of_the_user_gets_in(hand, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    hand.tools.close()
    assert "secret" not in hand.good("Bash", command="env; cat /proc/*/environ | tr '\\0' '\\n'")


def test_long_output_loses_its_middle(hand):
    text = hand.good("Bash", command="echo first; seq 100000; echo last")
    assert text.startswith("first\n1\n")
    assert text.endswith("100000\nlast")
    assert "left out" in text
    assert len(text) <= MAX_CHARS + 100


def test_background_output_comes_in_pieces(hand):
    assert "bash_1" in hand.good("Bash", command="echo one; read x < go; echo two; exit 5", run_in_background=True)
    hand.good("Bash", command="mkfifo go 2>/dev/null; true")
    hand.bad("BashOutput", bash_id="bash_9")
    hand.bad("KillBash", shell_id="bash_9")


def test_a_background_command_can_be_waited_for_filtered_and_ended(hand):
    os.mkfifo(hand.folder / "go")
    os.mkfifo(hand.folder / "end")
    command = "echo one; echo > go; read x < go; echo two; echo three; echo > end; sleep 1000"
    hand.good("Bash", command=command, run_in_background=True)
    hand.good("Bash", command="read x < go")
    assert "still running" in (text := hand.good("BashOutput", bash_id="bash_1"))
    assert "one" in text
    hand.good("Bash", command="echo > go; read x < end")
    text = hand.good("BashOutput", bash_id="bash_1", filter="^th")
    assert "three" in text
    assert "two" not in text
    assert "one" not in text
    hand.good("KillBash", shell_id="bash_1")
    hand.good("Bash", command="while pgrep -x sleep; do :; done")
    assert "not a regular expression" in hand.bad("BashOutput", bash_id="bash_1", filter="(")


@given(st.text(), st.integers(2, 50))
def test_cut_keeps_both_ends(text, limit):
    short = cut(text, limit)
    if len(text) <= limit:
        assert short == text
    else:
        assert short.startswith(text[: limit // 2])
        assert short.endswith(text[-(limit // 2) :])


@given(st.lists(st.integers(0, 200_000), max_size=5))
def test_a_tail_is_bounded_and_keeps_both_ends(sizes):
    tail = Tail()
    tail.add(b"<")
    for size in sizes:
        tail.add(b"." * size)
    tail.add(b">")
    text = tail.take()
    assert text.startswith("<")
    assert text.endswith(">")
    assert len(text) <= MAX_CHARS + 100
    assert tail.take() == ""
