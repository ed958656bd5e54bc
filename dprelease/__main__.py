"""`python -m dprelease`, and where the command `dprelease` begins."""

import gc
import signal

YOUNG = 200_000
"""Objects from which on garbage is looked for: loading modules makes many, and none is garbage."""


def main() -> None:
    """Run the command line as a whole process, which ends with its exit code.

    Until a command begins, nothing is open that would have to be left in order: an interrupt while
    modules are loaded ends the process as it ends any program, without a traceback. Who ignores
    interrupts, as a shell does for what runs in the background, keeps to that.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(YOUNG)
    from dprelease.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
