"""Lock this process in as `jail` does and run a command: what stands in for bubblewrap where that cannot work.

Started as ``launch.main()`` with the arguments PLAN, REPORT (a descriptor), ENVIRONMENT (JSON) and the command.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

from cuda_agent.sandbox import jail


def main() -> NoReturn:
    """Become the keeper of a jail whose worker is the command; ends with the command's exit status."""
    plan, report, variables, *command = sys.argv[1:]

    def work() -> NoReturn:
        try:
            os.execvpe(command[0], command, json.loads(variables))
        except OSError as error:
            print(f"{command[0]}: {error.strerror}", file=sys.stderr, flush=True)
            os._exit(127)

    os.set_inheritable(int(report), False)
    jail.contain(jail.Plan.loads(plan), int(report), set(), work)
