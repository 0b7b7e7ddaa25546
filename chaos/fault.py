"""What every fault is, and what faults need that a run may lack."""

from abc import ABC, abstractmethod
from typing import ClassVar

from chaos.site import Site

OWN_SERVICES = "the services are not processes of this run: --run-services"
OWN_NODES = "no simulated nodes of this run: --nodes"
OWN_SERVER = "the API server is not a process of this run: --embedded"
ETCD = "the address of etcd is not given: --etcd"


class Fault(ABC):
    """Something that goes wrong, and is over when :meth:`inject` returns. Durations are in seconds."""

    name: ClassVar[str]

    @abstractmethod
    def missing(self, site: Site) -> str:
        """Return why this fault is impossible here, empty if it is possible."""

    @abstractmethod
    async def inject(self, site: Site) -> bool:
        """Inject the fault; return whether there was something to inject it into. Raises KubeError, OSError."""
