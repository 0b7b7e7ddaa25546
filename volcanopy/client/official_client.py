"""The official client of Kubernetes (package kubernetes): a client with the connection, and pod templates of its models.

Imported where a program uses the official client: the import takes a fifth of a second.
"""

# mypy: disable-error-code="no-untyped-call"
import ssl
from pathlib import Path
from typing import Any

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.rest import RESTClientObject
from urllib3 import HTTPHeaderDict

from volcanopy.kube.client.connection import Credentials
from volcanopy.kube.client.kinds import Json
from volcanopy.kube.client.kubeconfig import load_connection

_MODELS = {"V1PodTemplateSpec": "template", "V1PodSpec": "pod", "V1Container": "container"}


class _RestClient(RESTClientObject):
    """Sends the credentials of a connection, renewed, with each request; impersonation has several headers of one name."""

    credentials = Credentials()

    def request(self, method: Any, url: Any, *arguments: Any, **options: Any) -> Any:
        """Send a request with the credentials of this moment; all but method and URL are named."""
        assert not arguments
        http_headers = HTTPHeaderDict(options.pop("headers", None) or {})
        for name, value in self.credentials.current().items():
            http_headers.add(name, value)
        return super().request(method, url, headers=http_headers, **options)


def api_client(kubeconfig: Path | str | None = None, context: str | None = None) -> ApiClient:
    """Return an ``ApiClient`` for the cluster of ``kubectl``, or of this file and context.

    It has the connection of volcanopy's commands: exec plugins, renewed tokens, proxies, impersonation. Raises NoCluster.
    """
    connection = load_connection(Path(kubeconfig) if kubeconfig is not None else None, context)
    settings = Configuration(host=connection.url)
    settings.proxy, settings.no_proxy = connection.proxy, None
    settings.tls_server_name = connection.server_name
    settings.verify_ssl = connection.ssl is None or connection.ssl.verify_mode is not ssl.CERT_NONE
    result = ApiClient(settings)
    rest_client = result.rest_client = _RestClient(settings)
    rest_client.credentials = connection.credentials
    if connection.ssl is not None:
        rest_client.pool_manager.connection_pool_kw["ssl_context"] = connection.ssl
    return result


def pod_template(template: Any) -> Json:
    """Return the JSON of a pod template; a pod spec or a container is completed to one. Raises TypeError for others."""
    form = "template" if isinstance(template, dict) else _MODELS.get(type(template).__name__)
    if form is None:
        raise TypeError(f"template: {type(template).__name__} is none of {', '.join(_MODELS)} or dict")
    content: Json = ApiClient(Configuration()).sanitize_for_serialization(template)
    match form:
        case "container":
            return {"spec": {"restartPolicy": "Never", "containers": [content]}}
        case "pod":
            return {"spec": content}
    return content
