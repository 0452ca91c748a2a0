"""Laying out, building and reading back workspaces."""

import argparse
import errno
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cuda_agent import params, records, workspace
from cuda_agent.sandbox import Limits
from cuda_agent.workspace import command

ROOT = Path(__file__).resolve().parents[2]
TASK = (workspace.TEMPLATE / "model.py").read_text().replace("512, 4096", "32, 64").replace("[4096,", "[64,")
EXAMPLE = ["kernels/axpby.cpp", "kernels/axpby_binding.cpp", "model_new.py"]


def build(folder, backend="cpp"):
    sandbox = params.load(ROOT, "laptop").sandbox
    return workspace.build(folder, backend=backend, limits=Limits.of(sandbox, 300), sandbox=sandbox)


def lay_out(*argv):
    """``cuda-agent workspace``."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(argv))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "work"
    workspace.create(folder, TASK, "cpp")
    return folder, build(folder)


def run(folder, *argv):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300)


def test_the_names_of_the_original_are_there(tmp_path):
    workspace.create(tmp_path / "w", TASK, "cuda")
    names = {str(p.relative_to(tmp_path / "w")) for p in (tmp_path / "w").rglob("*") if p.is_file()}
    assert names >= {
        *("SKILL.md", "model.py", "model_new.py", "binding.cpp", "binding_registry.h", "utils/__init__.py"),
        *("utils/compile.sh", "utils/compile.py", "utils/verification.py", "utils/profiling.py"),
        *("kernels/axpby.cu", "kernels/axpby_binding.cpp"),
    }
    assert "kernels/axpby.cpp" not in names  # the other backend's


def test_a_workspace_needs_a_folder_of_its_own(tmp_path):
    (tmp_path / "something").write_text("")
    with pytest.raises(FileExistsError, match="not empty"):
        workspace.create(tmp_path, TASK, "cpp")


def test_a_workspace_that_finds_no_room_is_named_and_not_left_half_made(tmp_path, monkeypatch):
    def full(source, target, **_):
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "task.py").write_text(TASK)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match=r"cannot be laid out: .*No space left") as error:
        lay_out(str(tmp_path / "task.py"), str(tmp_path / "w"))
    assert error.value.filename == str(tmp_path / "w")
    assert not (tmp_path / "w").exists()


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A repository of which h200 is the run that params.yaml names, with one task."""
    shutil.copytree(ROOT / "workflow" / "runs", tmp_path / "workflow" / "runs")
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    (tmp_path / "params.yaml").write_text(text.replace("run: laptop", "run: h200"), encoding="utf-8")
    task = dict.fromkeys(records.TASKS.names) | {"task_id": "abc", "code": TASK}
    records.write(tmp_path / "data" / "h200" / "tasks.parquet", [task], records.TASKS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("argv", "backend"),
    [
        (["ab", "w"], "cuda"),
        (["ab", "w", "--backend", "cpp"], "cpp"),
        (["task.py", "w", "--run", "laptop"], "cpp"),
        (["task.py", "w"], "cuda"),
    ],
)
def test_run_and_backend_are_those_of_the_parameters_unless_others_are_named(project, argv, backend):
    (project / "task.py").write_text(TASK, encoding="utf-8")
    assert lay_out(*argv) == 0
    assert (project / "w" / "BACKEND").read_text(encoding="utf-8") == f"{backend}\n"
    assert (project / "w" / "model.py").read_text(encoding="utf-8") == TASK


def test_a_task_that_is_no_file_is_said_to_be_none(project):
    (project / "folder").mkdir()
    os.mkfifo(project / "pipe")
    for task, what in (("folder", "a folder"), ("pipe", "a pipe or a device"), ("/dev/null", "a pipe or a device")):
        with pytest.raises(command.WorkspaceError, match=f"{task}: is {what}; name a file"):
            lay_out(task, "w")
    assert not (project / "w").exists()


def test_the_example_is_built_and_right(built):
    folder, result = built
    assert result.ok, result.log
    assert result.library.is_file()
    done = run(folder, sys.executable, "-m", "utils.verification")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("tool", ["verification", "profiling"])
def test_what_is_not_built_yet_is_said_in_one_line(tmp_path, tool):
    workspace.create(tmp_path / "w", TASK, "cpp")
    done = run(tmp_path / "w", sys.executable, "-m", f"utils.{tool}")
    assert done.returncode == 1
    assert done.stdout == "build/libcuda_extension.so is not built: run `bash utils/compile.sh` first\n"
    assert "Traceback" not in done.stderr


def test_verification_refuses_wrong_outputs_and_torch_operators(built, tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    text = (folder / "model_new.py").read_text()
    (folder / "model_new.py").write_text(text.replace("return out", "return torch.relu(out)"))
    (folder / "build").symlink_to(built[0] / "build")
    done = run(folder, sys.executable, "-m", "utils.verification")
    assert done.returncode == 1
    assert "torch operator aten.relu" in done.stdout
    assert "differs from the reference" in done.stdout


def test_only_what_changed_is_compiled_again(tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    assert build(folder).ok
    objects = {p.name: p.stat().st_mtime_ns for p in (folder / "build").glob("*.o")}
    kernel = folder / "kernels" / "axpby.cpp"
    kernel.write_text(kernel.read_text() + "// changed\n")
    assert build(folder).ok
    again = {p.name: p.stat().st_mtime_ns for p in (folder / "build").glob("*.o")}
    assert {n for n in objects if again[n] != objects[n]} == {"axpby.cpp.o"}


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        ("int broken(", "error"),
        ('extern "C" int dlsym_of_torch();\nint f() { return dlsym_of_torch(); }', "undefined reference"),
        ("#include <torch/extension.h>", "torch/extension.h"),
    ],
)
def test_what_does_not_compile_leaves_no_library_and_says_why(tmp_path, kernel, words):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    for path in (folder / "kernels").iterdir():
        path.unlink()
    (folder / "kernels" / "k.cpp").write_text(kernel)
    result = build(folder)
    assert (result.status, result.library) == ("error", None)
    assert words in result.log


def test_no_kernels_is_an_error_that_says_so(tmp_path):
    folder = tmp_path / "w"
    workspace.restore(folder, TASK, "cpp", {"model_new.py": ""})
    assert "nothing to compile" in build(folder).log


def test_a_snapshot_holds_sources_and_follows_no_links(tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    (folder / "secret").write_text("secret")
    (folder / "kernels" / "link.cpp").symlink_to(folder / "secret")
    os.mkfifo(folder / "kernels" / "pipe.cpp")
    (folder / "kernels" / "notes.md").write_text("no source")
    (folder / "kernels" / "big.cpp").write_bytes(b"/" * (2**20 + 1))
    assert list(workspace.snapshot(folder)) == EXAMPLE


NO_FILES = {
    "a folder": Path.mkdir,
    "a full folder": lambda path: (path / "inside").mkdir(parents=True),
    "a pipe": os.mkfifo,
    "a socket": lambda path: os.mknod(path, stat.S_IFSOCK | 0o600),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("name", ["model_new.py", "kernels", "kernels/axpby.cpp"])
def test_a_snapshot_leaves_out_what_is_no_file_and_takes_the_rest(tmp_path, name, kind):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    (folder / name).rename(tmp_path / "aside")
    NO_FILES[kind](folder / name)
    assert list(workspace.snapshot(folder)) == [path for path in EXAMPLE if not path.startswith(name)]


@pytest.mark.parametrize("linked", ["kernels", "kernels/inside"])
def test_a_snapshot_reads_nothing_through_a_linked_folder(tmp_path, linked):
    folder, secret = tmp_path / "w", tmp_path / "secret"
    workspace.create(folder, TASK, "cpp")
    secret.mkdir()
    (secret / "token.h").write_text("a secret of the host")
    shutil.rmtree(folder / "kernels")
    (folder / linked).parent.mkdir(exist_ok=True)
    (folder / linked).symlink_to(secret)
    assert list(workspace.snapshot(folder)) == ["model_new.py"]


def test_a_snapshot_leaves_out_names_that_are_no_text_and_folders_that_are_too_deep(tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    before = workspace.snapshot(folder)
    Path(os.fsdecode(bytes(folder / "kernels") + b"/\xff.cpp")).write_text("int x;", encoding="utf-8")
    deep = folder / "kernels" / "/".join("d" * 40)
    deep.mkdir(parents=True)
    (deep / "far.cpp").write_text("int y;")
    assert workspace.snapshot(folder) == before


def test_a_submission_is_restored_as_it_was_and_fixed_files_are_the_templates(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    workspace.create(first, TASK, "cpp")
    (first / "kernels" / "part").mkdir()
    (first / "kernels" / "part" / "x.h").write_text("// x\n")
    (first / "utils" / "verification.py").write_text("print('verified')")
    files = workspace.snapshot(first)
    workspace.restore(second, TASK, "cpp", files)
    assert workspace.snapshot(second) == files
    original = workspace.TEMPLATE / "utils" / "verification.py"
    assert (second / "utils" / "verification.py").read_text() == original.read_text()


@pytest.mark.parametrize(
    "name",
    ["utils/verification.py", "../out.cpp", "kernels/../binding.cpp", "/etc/passwd", "kernels/run.sh", "kernels"],
)
def test_a_submission_cannot_bring_other_files(tmp_path, name):
    with pytest.raises(workspace.SubmissionError, match="not part of a submission"):
        workspace.restore(tmp_path / "w", TASK, "cpp", {"model_new.py": "", name: ""})


GCC = """\
kernels/swish.cpp: In function ‘void f()’:
kernels/swish.cpp:8:4: error: expected ‘;’ before ‘void’
    8 |   (void)stream;
      |    ^~~~
kernels/swish.cpp:9:4: error: another
ninja: build stopped: cannot make progress due to previous errors.
compilation failed
"""
NVCC = """\
kernels/swish.cu(12): error: expected a ";"
      y[i] = x[i]
                 ^

1 error detected in the compilation of "kernels/swish.cu".
"""
LINKER = """\
/usr/bin/ld: build/binding.cpp.o: in function `f':
swish_binding.cpp:(.text+0x1): undefined reference to `swish_launcher'
collect2: error: ld returned 1 exit status
"""
HEADER = """\
In file included from kernels/swish.cpp:3:
/usr/include/c++/12/bits/stl_vector.h:400:7: error: no type named ‘x’
  400 |       using x;
"""


@pytest.mark.parametrize(
    ("log", "first"),
    [
        (GCC, "kernels/swish.cpp:8:4: error: expected ‘;’ before ‘void’\n    8 |   (void)stream;\n      |    ^~~~"),
        (NVCC, 'kernels/swish.cu(12): error: expected a ";"\n      y[i] = x[i]\n                 ^'),
        (LINKER, "swish_binding.cpp:(.text+0x1): undefined reference to `swish_launcher'"),
        ("ninja: x\nkernels/ has no *.cpp: nothing to compile", "kernels/ has no *.cpp: nothing to compile"),
        ("", ""),
    ],
)
def test_the_first_error_of_a_build_is_found_with_its_source_line(log, first):
    assert workspace.first_error(log) == first


def test_an_error_in_a_header_of_others_names_the_line_of_the_workspace_and_long_lines_are_cut():
    assert workspace.first_error(HEADER).startswith("kernels/swish.cpp:3: in a header: /usr/include/c++/12/bits")
    long = workspace.first_error("kernels/a.cpp:1:1: error: " + "x" * 10_000 + "\n" + "   y\n" * 99)
    assert len(long.splitlines()) == 4 and max(map(len, long.splitlines())) == 240


def test_what_the_compile_script_prints_begins_with_the_error_and_not_with_the_command(tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    (folder / "kernels" / "axpby.cpp").write_text("int broken(\n")
    done = run(folder, "bash", "utils/compile.sh")
    assert done.returncode == 1
    assert done.stdout.startswith("kernels/axpby.cpp:1:12: error:")
    assert "FAILED" not in done.stdout and "-std=c++17" not in done.stdout


def test_sources_that_the_backend_does_not_take_are_named_when_the_build_fails(tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    (folder / "kernels" / "axpby.cpp").rename(folder / "kernels" / "axpby.cu")
    result = build(folder)
    assert "undefined reference" in workspace.first_error(result.log)
    assert "not compiled, as the backend cpp takes *.cpp in kernels/ itself: kernels/axpby.cu" in result.log


def test_a_backend_that_there_is_not_is_named(tmp_path):
    folder = tmp_path / "w"
    workspace.create(folder, TASK, "cpp")
    (folder / "BACKEND").write_text("rust\n")
    assert "BACKEND says 'rust'; allowed: cpp or cuda" in run(folder, "bash", "utils/compile.sh").stdout
