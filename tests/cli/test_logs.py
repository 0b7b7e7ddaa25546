"""Logs of processes: JSON or terminal format, redacted secrets, rate limits."""

import base64
import io
import logging
import re
import warnings

import pytest
import structlog

from tests.cli.captured_logs import CapturedLogs, Terminal, logged
from volcanopy.cli.logs import RateLimitedHandler, without_secrets
from volcanopy.kube.client.logs import Logger
from volcanopy.services.controllers.effects import new_ssh_keys

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQifQ.c2lnbmF0dXJl"


def test_without_a_terminal_each_line_is_json() -> None:
    with logged() as seen:
        structlog.get_logger("volcanopy.one").info("cycle", binds=3)
        logging.getLogger("volcanopy.two").warning("pod %s is gone", "a")
    first, second = seen.lines
    assert (first["event"], first["binds"], first["level"], first["logger"]) == ("cycle", 3, "info", "volcanopy.one")
    assert (second["event"], second["level"], second["logger"]) == ("pod a is gone", "warning", "volcanopy.two")
    assert first["timestamp"].endswith("Z")


def test_on_a_terminal_lines_are_plain_text() -> None:
    with logged(stream=Terminal()) as seen:
        structlog.get_logger("volcanopy.one").info("cycle", binds=3)
    assert "cycle" in seen.text
    assert "{" not in seen.text


HOSTILE = "a\x1b[2J\x9b31m\u202eb\nlevel=info forged"


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_control_characters_of_objects_are_escaped_and_make_no_line(stream: type[io.StringIO]) -> None:
    with logged(stream=stream()) as seen:
        structlog.get_logger("volcanopy.one").warning("pod", name=HOSTILE, names=[HOSTILE], fields={"x": HOSTILE})
        logging.getLogger("volcanopy.two").warning("pod %s is gone", HOSTILE)
    assert "forged" in seen.text
    text = re.sub(r"\x1b\[[0-9;]*m", "", seen.text)  # our own colours
    assert all(character == "\n" or character.isprintable() for character in text)
    assert text.count("\n") == 2


def test_control_characters_are_escaped_before_logging_is_configured(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config() if structlog.is_configured() else None
    structlog.reset_defaults()
    try:
        Logger("volcanopy.three").warning("watch failed", error=HOSTILE)
    finally:
        if before is not None:
            structlog.configure(**before)
    assert "\\x9b31m" in capsys.readouterr().err


def test_every_logger_adds_the_current_session() -> None:
    with logged() as seen, structlog.contextvars.bound_contextvars(session="s-7"):
        logging.getLogger("volcanopy.services.scheduler.writers.pod_writer").warning("pod a could not be bound")
        structlog.get_logger("volcanopy.services").info("cycle")
    assert [line["session"] for line in seen.lines] == ["s-7", "s-7"]


@pytest.mark.parametrize("name", ["kopf.objects", "aiohttp.client", "asyncio", "kubernetes.client.rest"])
def test_library_loggers_use_the_same_format_without_debug_lines(name: str) -> None:
    with logged(verbose=name.startswith("kopf")) as seen:
        logging.getLogger(name).warning("%s has come to nothing", "it")
        logging.getLogger(name).debug("each little step")
    (line,) = seen.lines
    assert (line["event"], line["logger"]) == ("it has come to nothing", name)


def test_python_warnings_are_logged() -> None:
    with logged() as seen:
        warnings.warn("this is old", DeprecationWarning, stacklevel=1)
    (line,) = seen.lines
    assert "this is old" in line["event"]


def test_a_traceback_is_part_of_its_line() -> None:
    with logged() as seen:
        try:
            raise ValueError("wrong")
        except ValueError:
            logging.getLogger("volcanopy").exception("a cycle has failed")
    (line,) = seen.lines
    assert line["exception"].endswith("ValueError: wrong")


@pytest.mark.parametrize("verbose", [False, True])
def test_decisions_are_logged_with_verbose_only(verbose: bool) -> None:
    with logged(verbose=verbose) as seen:
        structlog.get_logger("volcanopy").debug("decision", effect="bind a-0 -> n1")
    assert len(seen.lines) == verbose


# Secrets


@pytest.fixture(scope="module")
def keys() -> dict[str, str]:
    return new_ssh_keys()


def test_secrets_are_redacted_in_messages_fields_and_tracebacks(keys: dict[str, str]) -> None:
    private = keys["id_rsa"]
    packed = base64.b64encode(private.encode()).decode()
    with logged() as seen:
        log = logging.getLogger("volcanopy")
        log.warning("refused: Authorization: Bearer %s, and more", TOKEN)
        log.warning("the token %s is old", TOKEN)
        log.warning("applied %s", {"data": {"id_rsa": packed}})
        log.warning("key:\n%s", private)
        structlog.get_logger("volcanopy").info("headers", Authorization="Basic dXNlcjpwYXNz", sent={"x-token": "abc"})
        try:
            raise ValueError(f"cannot send {private}")
        except ValueError:
            log.exception("it failed")
    for secret in (TOKEN, "dXNlcjpwYXNz", '"abc"', packed, *private.splitlines()[1:-1]):
        assert secret not in seen.text
    assert "and more" in seen.text


def test_other_fields_are_not_redacted() -> None:
    event = {"event": "the token has expired", "pods": ["a", "b"], "node": "n1", "took": 1.5, "session": "s-1"}
    assert without_secrets(None, "", dict(event)) == event


# Storms


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def rate_limited_logger() -> "tuple[logging.Logger, CapturedLogs, Clock]":
    clock, stream = Clock(), io.StringIO()
    handler = RateLimitedHandler(stream, burst=3, window=10.0, clock=clock)
    log = logging.Logger("volcanopy.services.scheduler.writers.pod_writer")
    log.addHandler(handler)
    return log, CapturedLogs(stream), clock


def test_repeated_lines_are_limited_and_counted(
    rate_limited_logger: tuple[logging.Logger, CapturedLogs, Clock],
) -> None:
    log, seen, clock = rate_limited_logger
    for number in range(10_000):
        log.warning("pod %s could not be bound", number)
    assert seen.text.count("\n") == 3
    clock.now = 10.0
    log.warning("all is well")
    assert seen.text.splitlines()[3:] == [
        "9997 more equal lines left out: pod %s could not be bound",
        "all is well",
    ]


def test_rate_limits_are_per_level_and_message(rate_limited_logger: tuple[logging.Logger, CapturedLogs, Clock]) -> None:
    log, seen, _ = rate_limited_logger
    for number in range(100):
        log.warning("pod %s could not be bound", number)
        if number == 50:
            log.error("pod %s could not be bound", number)
            log.warning("node %s is gone", number)
    assert seen.text.count("\n") == 5


def test_the_rate_limit_starts_again_after_the_window(
    rate_limited_logger: tuple[logging.Logger, CapturedLogs, Clock],
) -> None:
    log, seen, clock = rate_limited_logger
    for _ in range(2):
        for number in range(5):
            log.warning("pod %s could not be bound", number)
        clock.now += 10.0
    assert seen.text.count("could not be bound\n") == 3 + 1 + 3
    assert seen.text.count("2 more equal lines") == 1


def test_closing_the_handler_reports_omitted_lines(
    rate_limited_logger: tuple[logging.Logger, CapturedLogs, Clock],
) -> None:
    log, seen, _ = rate_limited_logger
    for number in range(5):
        log.warning("pod %s could not be bound", number)
    log.handlers[0].close()
    assert "2 more equal lines left out" in seen.text


def test_structlog_events_are_grouped_by_event_text() -> None:
    with logged() as seen:
        for number in range(100):
            structlog.get_logger("volcanopy").info("cycle", session=str(number))
    assert len(seen.lines) == 21
    assert seen.lines[-1]["event"] == "80 more equal lines left out: cycle"
