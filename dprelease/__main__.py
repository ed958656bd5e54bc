"""`python -m dprelease`, and where the command `dprelease` begins."""

import signal


def main() -> None:
    """Run the command line as a whole process, which ends with its exit code.

    Until a command begins, nothing is open that would have to be left in order: an interrupt while
    modules are loaded ends the process as it ends any program, without a traceback. Who ignores
    interrupts, as a shell does for what runs in the background, keeps to that.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from dprelease.cli import main as command_line

    command_line()


if __name__ == "__main__":
    main()
