"""The command line: arguments -> a verb -> what it answers. No arithmetic here."""

from __future__ import annotations

import gc
import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from kvlab.core.errors import BadInput, KvlabError, nearest

if TYPE_CHECKING:
    from kvlab.cli.command import Answer, Command

_PURPOSE = (
    "Plan the KV cache of a model, launch the engine, check the plan, measure A against B, gate on quality, report."
)


_EXPLAINED = (
    "",
    "kvlab COMMAND --help explains each. Every command takes --json and -o FILE.",
    "Exit code: 0 answered, 1 a gate failed, 2 wrong input, 130 interrupted.",
)


def names() -> list[str]:
    """Verbs, sorted: the files in cli/commands."""
    folder = os.path.join(os.path.dirname(__file__), "commands")
    return sorted(file[:-3] for file in os.listdir(folder) if file.endswith(".py") and not file.startswith("_"))


def load_verb(name: str) -> Command:
    """The verb of that name. Raises BadInput naming the nearest."""
    if name not in names():
        raise BadInput(f"no command {name!r} (kvlab --help lists them); {nearest(name, names())}")
    found: Command = import_module(f"kvlab.cli.commands.{name}").COMMAND
    return found


def main(argv: list[str] | None = None) -> int:
    """Runs one verb. 0: answered; 1: a gate failed; 2: wrong input, one line on stderr; 130: interrupted."""
    words = sys.argv[1:] if argv is None else argv
    # Modules are many small objects that live for ever: collecting while they load costs a tenth of a short command.
    gc.set_threshold(100_000, 50, 50)
    signal.signal(signal.SIGTERM, _interrupt)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        signal.signal(signal.SIGHUP, _interrupt)  # the terminal has gone: what was started must not stay
    if sys.stdout is None:  # closed by the caller: what is printed goes nowhere, files are still written
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):  # what an ASCII terminal cannot show is written out, not refused
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(words)
    except KvlabError as error:
        return _complain(str(error), error.exit_code)
    except KeyboardInterrupt as stop:
        advice = f"; {stop}" if str(stop) else ""
        return _complain(f"interrupted; everything that was started has been stopped{advice}", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if os.environ.get("KVLAB_DEBUG"):
            raise
        where = f" {error.filename}" if error.filename else ""
        return _complain(
            f"cannot use{where}: {error.strerror or error}; check the path, its permissions and disk room", 2
        )
    except Exception as error:
        if os.environ.get("KVLAB_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"[:300]
        return _complain(f"kvlab did not expect this ({what}); check the input, or report it with KVLAB_DEBUG=1", 2)


def run() -> NoReturn:
    """The `kvlab` command: `main`, then out without dismantling the interpreter, a tenth of a short command's time.

    Whatever a verb starts it has stopped and closed by then; nothing waits for an exit handler.
    """
    code = main()
    for stream in (sys.stdout, sys.stderr):  # None when the caller has closed it
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            code = code or 2
    os._exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _complain(line: str, code: int) -> int:
    from kvlab.cli.stderr import say

    say(f"kvlab: {line}")
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        return _help()
    if words[0] in ("-V", "--version"):
        from kvlab import __version__

        print(f"kvlab {__version__}")
        return 0
    from kvlab.cli.command import Parser
    from kvlab.cli.files import refuse_same

    verb = load_verb(words[0])
    parser = Parser(f"kvlab {words[0]}", verb.help)
    verb.arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    if verb.output_folder:
        parser.add_argument("-o", "--output", metavar="DIR", help="where the files go (default: the working folder)")
    else:
        parser.add_argument("-o", "--output", metavar="FILE", help="write the JSON document to FILE as well")
    options = parser.parse_args(words[1:])
    refuse_same(options)
    if options.output is not None and not verb.output_folder:
        # Before the work: a result that cannot be kept is lost.
        from kvlab.store import check_target

        check_target(options.output)
    return deliver(verb.run(options), as_json=options.json, output=options.output)


def deliver(answer: Answer, *, as_json: bool, output: str | None) -> int:
    """Prints what a verb answers, as JSON or for a person, and writes the file; the exit code."""
    if as_json or output:
        from kvlab.store import encode, write_atomic

        document = encode(answer.document)
        if output:
            write_atomic(output, document)
        if as_json:
            sys.stdout.write(_encodable(document.decode()))
            sys.stdout.flush()
            return answer.exit_code
    from kvlab.reporting import terminal

    try:
        terminal.show(answer.show())
    except SystemExit:
        # What rich raises when the reader of a pipe has gone: it has seen enough.
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    return answer.exit_code


def _encodable(document: str) -> str:
    """JSON that standard output can carry: where that is not UTF-8, with escapes for all that is not ASCII."""
    if (sys.stdout.encoding or "utf-8").lower().startswith("utf"):
        return document
    points = (letter.encode("utf-16-be").hex() if ord(letter) > 0x7F else letter for letter in document)
    return "".join(
        point if len(point) == 1 else "".join(f"\\u{point[at : at + 4]}" for at in range(0, len(point), 4))
        for point in points
    )


def _help() -> int:
    from textwrap import fill

    from kvlab.cli.command import help_width

    width = help_width()
    print(f"usage: kvlab COMMAND [options]\n\n{fill(_PURPOSE, width)}\n\ncommands:")
    for name in names():
        print(fill(f"  {name:<10} {load_verb(name).help}", width, subsequent_indent=" " * 13))
    for line in _EXPLAINED:
        print(fill(line, width))
    return 0
