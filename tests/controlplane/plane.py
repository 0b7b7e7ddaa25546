"""`ControlPlane`: etcd, kube-apiserver and kube-controller-manager, started and stopped together.

It is a cluster without nodes: no scheduler and no kubelet run unless the test acts as them. Differences from a cluster
out of the box, all for the sake of such tests:

* Nodes that are created through the API stay untainted (no TaintNodesByCondition, no node lifecycle controller).
* Pods can be created the moment their namespace exists (no ServiceAccount admission, so no token volumes either).
* Kubernetes' gang API is served (GenericWorkload).
* Requests are not queued by priority, since one client is the whole load.
* Only `CONTROLLERS` run. The garbage collector looks for new kinds every 30 s; kinds given to `start` as `crds` exist
  before it begins, so owners of those kinds are followed from the first moment.
"""

import functools
import http.client
import json
import secrets
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hack.certificates import Authority, key_pem, kubeconfig, new_key, public_pem
from hack.controlplane import assets
from tests.controlplane.processes import ProcessGroup, free_port

CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "replicaset-controller",
    "resourceclaim-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "statefulset-controller",
)
START_SECONDS = 180.0
POLL_SECONDS = 0.02
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class StartError(Exception):
    """The control plane did not come up; the message ends with the last lines of each program's log."""


class CreateError(Exception):
    """The API server answered `status`, not 2xx; `body` is the response, usually a Status object."""

    def __init__(self, method: str, path: str, status: int, body: Any) -> None:
        self.status, self.body = status, body
        message = body.get("message", body) if isinstance(body, dict) else body
        super().__init__(f"{method} {path}: {status} {message}")


class ControlPlane:
    """A running control plane; leave the `with` block, or call `stop`, and nothing of it remains.

    url         https://127.0.0.1:<port>
    etcd        http://127.0.0.1:<port>, for what is stored
    ca          the CA's certificate, PEM
    token       a bearer token of the group system:masters, fixed for the server's life
    kubeconfig  a file for that same administrator, in `directory`, which is removed at the end
    """

    def __init__(self, programs: Path, users: Mapping[str, Sequence[str]] | None = None) -> None:
        self._users = dict(users or {})
        self._tokens = {user: secrets.token_hex(16) for user in self._users}
        self.directory = Path(tempfile.mkdtemp(prefix="volcanopy-controlplane-"))
        self.token = secrets.token_hex(16)
        self.kubeconfig = self.directory / "admin.kubeconfig"
        self._programs = programs
        self._processes = ProcessGroup(self.directory)
        self._authority = Authority()
        self._port = free_port()
        self.url = f"https://127.0.0.1:{self._port}"
        self.etcd = ""
        self.ca = self._authority.certificate
        self._trust = ssl.create_default_context(cadata=self.ca.decode())

    @classmethod
    def start(
        cls,
        programs: Path | None = None,
        *,
        controllers: Sequence[str] = CONTROLLERS,
        crds: Iterable[Mapping[str, Any]] = (),
        apiserver_flags: Sequence[str] = (),
        users: Mapping[str, Sequence[str]] | None = None,
    ) -> Self:
        """Start a control plane and return it once it answers as a settled cluster would.

        programs         the folder of the binaries; by default what `hack.controlplane.assets()` finds
        controllers      which controllers of kube-controller-manager run; none at all without any
        crds             CustomResourceDefinitions that are established before the controllers start
        apiserver_flags  more flags of kube-apiserver; the last of two equal flags counts
        users            users that have bearer tokens, with their groups: see `kubeconfig_for`

        Raises StartError, with the logs, when it does not come up within a minute.
        """
        result = programs or assets()
        if result is None:
            raise StartError("there is no kube-apiserver here: run `python -m hack.controlplane`")
        plane = cls(result, users)
        try:
            plane._start(controllers, crds, apiserver_flags)
        except BaseException as error:
            tails = plane._processes.tails()
            plane.stop()
            if isinstance(error, StartError):
                raise StartError(f"{error}\n{tails}") from error
            raise
        return plane

    def stop(self) -> None:
        """End the programs and remove every file. Calling it again does nothing."""
        self._processes.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Write and return a kubeconfig for any user and groups; RBAC decides what they may.

        Its credentials are the token of a user that was given to `start`, otherwise a client certificate, which the API server
        verifies again for each request (0.15 ms).
        """
        credentials = self._tokens.get(user) or self._authority.client(user, groups)
        path = self.directory / f"{secrets.token_hex(4)}.kubeconfig"
        self._write(path.name, kubeconfig(self.url, self.ca, user, credentials))
        return path

    def request(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        """Ask the API server as the administrator; return the decoded JSON answer, or the text where it is not JSON.

        Raises RefusedError for any status that is not 2xx.
        """
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._trust, timeout=120)
        try:
            headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        answer = json.loads(text) if is_json else text
        if response.status >= 300:
            raise CreateError(method, path, response.status, answer)
        return answer

    def establish(self, *crds: Mapping[str, Any]) -> None:
        """Create CustomResourceDefinitions and wait until their kinds are served.

        An object of one that is created within two seconds of that takes two seconds: the API server sleeps on purpose.
        """
        for crd in crds:
            self.request("POST", CRDS, crd)
        for crd in crds:
            self._wait(f"{crd['metadata']['name']} to be served", functools.partial(self._serves, crd["spec"]))

    def pids(self) -> dict[str, int]:
        """Return the process id of each program, by name: for measurements and for chaos."""
        return self._processes.pids()

    def log(self, name: str) -> str:
        """Return what the program (`etcd`, `kube-apiserver`, `kube-controller-manager`) has written so far."""
        return self._processes.log(name).read_text(errors="replace")

    def _start(self, controllers: Sequence[str], crds: Iterable[Mapping[str, Any]], flags: Sequence[str]) -> None:
        self._write("admin.kubeconfig", kubeconfig(self.url, self.ca, "admin", self.token))
        etcd = self.etcd = f"http://127.0.0.1:{free_port()}"
        self._processes.start("etcd", [str(self._programs / "etcd"), *self._etcd_flags(etcd)])
        program = str(self._programs / "kube-apiserver")
        self._processes.start("kube-apiserver", [program, *self._apiserver_flags(etcd), *flags])
        self._wait("/readyz", lambda: self._answers("/readyz"))
        self._wait("namespace default", lambda: self._answers("/api/v1/namespaces/default"))
        self.establish(*crds)
        if controllers:
            program = str(self._programs / "kube-controller-manager")
            self._processes.start("kube-controller-manager", [program, *self._controller_flags(controllers)])
            account = "/api/v1/namespaces/default/serviceaccounts/default"
            if "serviceaccount-controller" in controllers:
                self._wait("service account default", lambda: self._answers(account))

    def _etcd_flags(self, url: str) -> list[str]:
        return [
            f"--data-dir={self.directory / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            # A member that votes alone need not give others a second to speak up. Each heartbeat is work for an idle server.
            "--heartbeat-interval=100",
            "--election-timeout=500",
            "--log-level=error",
            # 150,000 pods that are created, bound and run are more than the 2 GiB after which etcd takes no more writes.
            "--quota-backend-bytes=8589934592",
        ]

    def _apiserver_flags(self, etcd: str) -> list[str]:
        serving = self._authority.server()
        accounts = new_key()
        tokens = [(self.token, "admin", ["system:masters"])]
        tokens += [(self._tokens[user], user, list(groups)) for user, groups in self._users.items()]
        files: dict[str, bytes | str] = {
            "client-ca-file": self.ca,
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "service-account-key-file": public_pem(accounts),
            "service-account-signing-key-file": key_pem(accounts),
            "token-auth-file": "".join(f'{token},{user},{user},"{",".join(of)}"\n' for token, user, of in tokens),
        }
        return [
            *(f"--{flag}={self._write(flag, content)}" for flag, content in files.items()),
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--cert-dir={self.directory}",
            "--endpoint-reconciler-type=none",
            f"--service-account-issuer={self.url}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--enable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--allow-privileged=true",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=3000",
            "--max-mutating-requests-inflight=3000",
            "--profiling=false",
            # The gang API: Workload and PodGroup, and the PodGroup that a pod names in its spec.
            "--feature-gates=GenericWorkload=true",
            "--runtime-config=scheduling.k8s.io/v1alpha2=true",
        ]

    def _controller_flags(self, controllers: Sequence[str]) -> list[str]:
        user = "system:kube-controller-manager"
        who = self._tokens.get(user) or self._authority.client(user, ["system:masters"])
        return [
            f"--kubeconfig={self._write('controllers.kubeconfig', kubeconfig(self.url, self.ca, 'controllers', who))}",
            f"--controllers={','.join(controllers)}",
            f"--root-ca-file={self._write('root-ca', self.ca)}",
            f"--flex-volume-plugin-dir={self.directory}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=2000",
            "--kube-api-burst=4000",
            "--concurrent-gc-syncs=20",
            "--profiling=false",
        ]

    def _answers(self, path: str) -> bool:
        try:
            self.request("GET", path)
        except (OSError, http.client.HTTPException, CreateError):
            return False
        return True

    def _serves(self, spec: Mapping[str, Any]) -> bool:
        """Return whether all served versions of a definition are. Their lists are short; a definition has up to 600 kB."""
        group, plural = spec["group"], spec["names"]["plural"]
        try:
            return all(
                any(
                    resource["name"] == plural
                    for resource in self.request("GET", f"/apis/{group}/{version['name']}")["resources"]
                )
                for version in spec["versions"]
                if version["served"]
            )
        except CreateError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return False

    def _wait(self, what: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if dead := self._processes.dead():
                raise StartError(f"{' and '.join(dead)} ended while waiting for {what}")
            if time.monotonic() > deadline:
                raise StartError(f"no {what} after {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _write(self, name: str, content: bytes | str) -> Path:
        path = self.directory / name
        path.touch(mode=0o600)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path
