"""The configuration files of containerd, CNI, kubelet and kube-proxy."""

import json

from hack.realnode.layout import DNS_SERVICE, PODS, Layout, node_address, pod_network

PAUSE_IMAGE = "localhost/realnode/pause:1"
KUBELET_PROXY = "/etc/kubernetes/kube-proxy.yaml"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
CONTAINERD_CONFIG = "/etc/containerd/config.toml"

EXCLUSIVE_CPUS = """cpuManagerPolicy: static
topologyManagerPolicy: single-numa-node
kubeReserved: {cpu: 100m}
"""
"""The last node gives whole CPUs to containers that request them; one CPU, of which a tenth is reserved, stays for the others."""


def proxy(layout: Layout, node: str) -> str:
    """Return the configuration of kube-proxy, which leaves the connection tracking of the machine alone."""
    return f"""apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{kubeconfig: {layout.kubeconfig("proxy")}}}
hostnameOverride: {node}
mode: iptables
clusterCIDR: {PODS}
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}}
"""


def node_files(layout: Layout, number: int) -> dict[str, str]:
    """Return the files of a node, by path."""
    hosts = "".join(f"{node_address(other)} node-{other}\n" for other in range(1, layout.nodes + 1))
    return {
        "/etc/hostname": f"node-{number}\n",
        "/etc/hosts": f"127.0.0.1 localhost\n{hosts}",
        # A pull of an image that is absent fails at once instead of waiting for a name server.
        "/etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
        "/run/resolv.conf": "# no name server outside of the cluster\n",
        "/etc/cni/net.d/10-realnode.conflist": _network(number),
        CONTAINERD_CONFIG: _containerd(layout),
        KUBELET_CONFIG: _kubelet(layout) + (EXCLUSIVE_CPUS if number == layout.nodes else ""),
        KUBELET_PROXY: proxy(layout, f"node-{number}"),
    }


def _network(number: int) -> str:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isDefaultGateway": True,
        "hairpinMode": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": pod_network(number)}]]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "realnode", "plugins": [bridge, ports]})


def _containerd(layout: Layout) -> str:
    runtime = "plugins.'io.containerd.cri.v1.runtime'"
    images = "plugins.'io.containerd.cri.v1.images'"
    # Without CAP_SYS_RESOURCE a negative oom_score_adj cannot be set.
    return f"""version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[{images}]
  snapshotter = "overlayfs"
[{images}.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[{runtime}]
  restrict_oom_score_adj = true
[{runtime}.cni]
  bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
  conf_dir = "/etc/cni/net.d"
[{runtime}.containerd]
  default_runtime_name = "runc"
[{runtime}.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[{runtime}.containerd.runtimes.runc.options]
  BinaryName = "{layout.programs}/runc"
  SystemdCgroup = false
"""


def _kubelet(layout: Layout) -> str:
    return f"""apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
clusterDNS: [{DNS_SERVICE}]
clusterDomain: cluster.local
resolvConf: /run/resolv.conf
failSwapOn: false
volumePluginDir: /var/lib/kubelet/volumeplugins
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {layout.pki}/ca.crt}}
authorization: {{mode: Webhook}}
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, nodefs.inodesFree: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 20
"""
