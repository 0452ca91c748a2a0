"""What two runs of one conversation may differ in."""

import pytest
from cuda_agent.agent.measured import first_difference, normalise
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("took 1.25 s", "took 0.3 s"),
        ("0.41ms per call, 1.9x", "12.0ms per call, 3x"),
        ("ModelNew           0.1234  ", "ModelNew          10.2  "),
        ("torch.compile      0.5000  1.20x", "torch.compile     0.7  0.91x"),
        ("output differs from the reference by up to 0.0123", "output differs from the reference by up to 3e-05"),
        ("[1] 4711", "[1] 99"),
        ("killed pid 12", "killed pid 4711"),
        ("-rw-r--r-- 1 root root 5 Dec  2 06:44 a.txt", "-rw-r--r-- 1 root root 5 Jan 12 2027 a.txt"),
        ("total 8\ndrwxr-xr-x 2 root root 4096 Jan  1 2026 k", "total 24\ndrwxr-xr-x 12 me users 60 Feb 12 11:12 k"),
        ("max difference 1.5e-07, error: 0.25", "max difference 2e-7, error: 0.125"),
        ("at 0x7ffc01234567", "at 0x55d0deadbeef"),
        ("/tmp/ccAbC12.o: undefined", "/tmp/ccXyZ99.o: undefined"),
        ("2026-01-02T03:04:05Z", "2027-11-12 13:14:15"),
        ("trailing  ", "trailing"),
    ],
)
def test_measured_things_may_differ(old, new):
    assert first_difference(old, new) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("verified on 5 sets", "verified on 4 sets"),
        ("Exit code 1", "Exit code 2"),
        ("float x = 0.5f;", "float x = 0.7f;"),
        ("a.cpp:12:3: error: no ;", "a.cpp:13:3: error: no ;"),
        ("/tmp/workspace/a", "/tmp/workspace/b"),
        ("output differs by up to 0.1", "output1 differs by up to 0.1"),
        ("     1\tx = 1", "     2\tx = 1"),
        ("-rw-r--r-- 1 root root 5 Dec  2 06:44 a", "-rw-r--r-- 1 root root 6 Dec  2 06:44 a"),
        ("error: 2 arguments", "error: 3 arguments"),
        ("a 3 x 4 matrix", "a 5 x 4 matrix"),
        ("one", "one\ntwo"),
    ],
)
def test_other_things_may_not(old, new):
    assert first_difference(old, new)


def test_the_first_line_is_named():
    assert first_difference("same\nold 1 s\nx", "same\nnew 2 s\ny") == (
        "line 2: recorded 'old <measured>', now 'new <measured>'"
    )


@given(st.text())
def test_a_text_equals_itself(text):
    assert first_difference(text, text) is None
    assert normalise(text).count("\n") == text.count("\n")
