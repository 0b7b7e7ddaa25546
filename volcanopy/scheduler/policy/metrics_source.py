"""The block ``metrics`` of the scheduler's configuration: the sources of measures of nodes.

This module only reads the block. The service queries the sources and gives the results to the cluster cache.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from volcanopy.api.model import Duration
from volcanopy.scheduler.policy.durations import above_zero
from volcanopy.scheduler.policy.plugin import Arguments

PositiveDuration = Annotated[Duration, above_zero("30s")]
_SERVED = ("prometheus", "prometheus_adaptor", "metrics-server", "node-agent")
_ELASTIC = "elasticsearch"
_OF_TYPE = ("cpu", "memory")
"""The measures that a source of a type returns."""


class MeasureQueries(Arguments):
    """The queries of Prometheus for a measure. Series have the label ``node``, ``nodename`` or ``instance``."""

    query: str = ""
    """The mean. ``cpu`` and ``memory`` need none where a source of the type above measures them."""
    deviation: str = ""
    """The standard deviation."""
    peak: str = ""
    """The largest value."""
    prediction: str = ""
    """The value that is expected."""

    @model_validator(mode="after")
    def _has_a_query(self) -> "MeasureQueries":
        if not self.parts:
            raise ValueError("must have a query, deviation, peak or prediction")
        return self

    @property
    def parts(self) -> Mapping[str, str]:
        """The queries by the statistic."""
        parts = {"mean": self.query, "deviation": self.deviation, "peak": self.peak, "prediction": self.prediction}
        return {name: query for name, query in parts.items() if query}


class Metrics(Arguments):
    """The sources and the interval of the queries."""

    type: Literal["prometheus", "prometheus_adaptor", "metrics-server", "node-agent"] | None = None
    """The source of the measures ``cpu`` and ``memory``: a Prometheus server; the API server's ``custom.metrics.k8s.io``; its
    ``metrics.k8s.io``; or the agents of the nodes. Required if there are no ``measures``."""
    address: str = ""
    """The URL of the Prometheus server."""
    measures: dict[str, MeasureQueries] = Field(default_factory=dict)
    """Measures by name, each with the queries for Prometheus ``query``, ``deviation``, ``peak`` or ``prediction``."""
    interval: PositiveDuration = timedelta(seconds=30)
    """The interval of the queries."""
    max_age: PositiveDuration = Field(timedelta(minutes=5), alias="maxAge")
    """Older values are unknown."""
    insecure: bool = Field(False, alias="tls.insecureSkipVerify")
    """Whether certificates that cannot be verified are accepted."""

    @model_validator(mode="before")
    @classmethod
    def _is_supported(cls, values: Any) -> Any:
        keys = [str(key) for key in values] if isinstance(values, dict) else []
        if keys and (values.get("type") == _ELASTIC or any(key.startswith(f"{_ELASTIC}.") for key in keys)):
            raise ValueError(f"type {_ELASTIC} is not supported: use one of {', '.join(_SERVED)}")
        return values

    @model_validator(mode="after")
    def _has_an_address(self) -> "Metrics":
        if self.type is None and not self.measures:
            raise ValueError(f"type is missing: give one of {', '.join(_SERVED)}, or measures")
        for name, measure in self.measures.items():
            if not measure.query and (self.type is None or name not in _OF_TYPE):
                raise ValueError(f"measures.{name}.query is missing")
        if self.type == "prometheus" or self.measures:
            if not self.address.startswith(("http://", "https://")):
                value = f"not {self.address!r}" if self.address else "and is missing"
                raise ValueError(
                    f"address must be the URL of the Prometheus server such as http://prometheus.monitoring:9090, {value}"
                )
        elif self.address:
            raise ValueError(
                f"address is for type prometheus and measures: with type {self.type} the API server is asked, leave it out"
            )
        return self
