"""Compile, verify and profile in one call; stops at the first of them that fails. Fixed."""

import sys

from utils import compile as compiling


def main():
    """Command line. Exit status: 0; 1 if the code is wrong; 2 if this machine cannot compile."""
    status, log = compiling.build()
    print(log, end="")
    if status:
        print("compilation failed")
        return status
    print("compiled build/libcuda_extension.so")
    from utils import profiling, verification

    if status := verification.main():
        return status
    return profiling.main()


if __name__ == "__main__":
    sys.exit(main())
