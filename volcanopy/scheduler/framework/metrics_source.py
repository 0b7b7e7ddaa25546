"""Where the nodes' real load comes from: the block ``metrics`` of the scheduler's configuration.

Only the words are read here. Whoever runs the scheduler asks that source, and hands what it says to the state.
"""

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from volcanopy.api.model import Duration
from volcanopy.scheduler.framework.plugin import Arguments

_SERVED = ("prometheus", "prometheus_adaptor", "metrics-server")
_ELASTIC = "elasticsearch"


class Metrics(Arguments):
    """Whom to ask, and how often."""

    type: Literal["prometheus", "prometheus_adaptor", "metrics-server"]
    """A Prometheus server; the API server's ``custom.metrics.k8s.io``; or its ``metrics.k8s.io``."""
    address: str = ""
    """The URL of the Prometheus server."""
    interval: Duration = timedelta(seconds=30)
    """How often it is asked."""
    insecure: bool = Field(False, alias="tls.insecureSkipVerify")
    """Whether a certificate that nobody vouches for is good enough."""

    @field_validator("interval")
    @classmethod
    def _is_above_zero(cls, said: timedelta) -> timedelta:
        if said <= timedelta(0):
            raise ValueError("must be a duration above zero such as 30s")
        return said

    @model_validator(mode="after")
    def _has_an_address(self) -> "Metrics":
        if self.type == "prometheus":
            if not self.address.startswith(("http://", "https://")):
                said = f"not {self.address!r}" if self.address else "and is missing"
                raise ValueError(
                    f"address must be the URL of the Prometheus server such as http://prometheus.monitoring:9090, {said}"
                )
        elif self.address:
            raise ValueError(
                f"address is for type prometheus: with type {self.type} the API server is asked, leave it out"
            )
        return self


def read(said: Any) -> Metrics | None:
    """The block, None if there is none. Raises ValueError with one sentence, or pydantic's error for a single key."""
    if not said:
        return None
    if not isinstance(said, dict):
        raise ValueError("must be a mapping with the key type")
    kind = said.get("type")
    if kind == _ELASTIC or any(str(key).startswith(f"{_ELASTIC}.") for key in said):
        raise ValueError(f"type {_ELASTIC} is not supported: use one of {', '.join(_SERVED)}")
    return Metrics.model_validate(said)


def complaint(error: ValidationError) -> tuple[str, str, str]:
    """The first thing that is wrong: the key, pydantic's word for the fault, and the sentence."""
    first = error.errors()[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), str(first["type"]), message[:1].lower() + message[1:]
