"""The block ``metrics`` of the scheduler's configuration: the source of the measured load of nodes.

This module only reads the block. The service queries the source and gives the results to the cluster cache.
"""

from datetime import timedelta
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from volcanopy.api.model import Duration
from volcanopy.scheduler.framework.plugin import Arguments

_SERVED = ("prometheus", "prometheus_adaptor", "metrics-server", "node-agent")
_ELASTIC = "elasticsearch"


class Metrics(Arguments):
    """The source and the interval of the queries."""

    type: Literal["prometheus", "prometheus_adaptor", "metrics-server", "node-agent"]
    """A Prometheus server; the API server's ``custom.metrics.k8s.io``; its ``metrics.k8s.io``; or the agents of the nodes."""
    address: str = ""
    """The URL of the Prometheus server."""
    interval: Duration = timedelta(seconds=30)
    """The interval of the queries."""
    insecure: bool = Field(False, alias="tls.insecureSkipVerify")
    """Whether certificates that cannot be verified are accepted."""

    @field_validator("interval")
    @classmethod
    def _is_above_zero(cls, value: timedelta) -> timedelta:
        if value <= timedelta(0):
            raise ValueError("must be a duration above zero such as 30s")
        return value

    @model_validator(mode="after")
    def _has_an_address(self) -> "Metrics":
        if self.type == "prometheus":
            if not self.address.startswith(("http://", "https://")):
                value = f"not {self.address!r}" if self.address else "and is missing"
                raise ValueError(
                    f"address must be the URL of the Prometheus server such as http://prometheus.monitoring:9090, {value}"
                )
        elif self.address:
            raise ValueError(
                f"address is for type prometheus: with type {self.type} the API server is asked, leave it out"
            )
        return self


def read(value: Any) -> Metrics | None:
    """Return the block, None without one. Raises ValueError with one sentence, or ValidationError for a single key."""
    if not value:
        return None
    if not isinstance(value, dict):
        raise ValueError("must be a mapping with the key type")
    kind = value.get("type")
    if kind == _ELASTIC or any(str(key).startswith(f"{_ELASTIC}.") for key in value):
        raise ValueError(f"type {_ELASTIC} is not supported: use one of {', '.join(_SERVED)}")
    return Metrics.model_validate(value)


def complaint(error: ValidationError) -> tuple[str, str, str]:
    """Return the first error: the key, the type of the error, and the message."""
    first = error.errors()[0]
    message = str(first["msg"]).removeprefix("Value error, ")
    return ".".join(map(str, first["loc"])), str(first["type"]), message[:1].lower() + message[1:]
