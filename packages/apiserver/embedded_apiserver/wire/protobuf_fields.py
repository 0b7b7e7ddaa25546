"""The field numbers of the messages of the core group, which clients send as protobuf.

One message a paragraph: `number name type`. Types are s (string), i (integer), b (boolean), y (bytes), q (quantity),
t and u (times), o (integer or string), r (raw JSON), the name of a message, or - for what a server ignores. After the
type, `*` is a list; `{}` around it is a map from strings; `@` before it is a message with nothing but a list. `!` marks
a pointer, whose zero is a value; `+` a field that is written even when empty; `^` as a name a message whose fields
stand in its parent. A name that messages of two groups have is that of the first; the other has the group before it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CORE"]

CORE: Final = """
Namespace: 1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus
ObjectMeta: 1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s, 7 generation i, 8
  creationTimestamp t, 9 deletionTimestamp t, 10 deletionGracePeriodSeconds i!, 11 labels {s}, 12 annotations {s}, 13
  ownerReferences OwnerReference*, 14 finalizers s*, 17 managedFields -
OwnerReference: 5 apiVersion s+, 1 kind s+, 3 name s+, 4 uid s+, 6 controller b!, 7 blockOwnerDeletion b!
NamespaceSpec: 1 finalizers s*
NamespaceStatus: 1 phase s, 2 conditions NamespaceCondition*
NamespaceCondition: 1 type s+, 2 status s+, 4 lastTransitionTime t, 5 reason s, 6 message s
Pod: 1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus
PodSpec: 1 volumes Volume*, 20 initContainers Container*, 2 containers Container*+, 34 ephemeralContainers
  EphemeralContainer*, 3 restartPolicy s, 4 terminationGracePeriodSeconds i!, 5 activeDeadlineSeconds i!, 6 dnsPolicy
  s, 7 nodeSelector {s}, 8 serviceAccountName s, 9 serviceAccount s, 21 automountServiceAccountToken b!, 10 nodeName
  s, 11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 27 shareProcessNamespace b!, 14 securityContext
  PodSecurityContext!, 15 imagePullSecrets LocalObjectReference*, 16 hostname s, 17 subdomain s, 18 affinity
  Affinity!, 19 schedulerName s, 22 tolerations Toleration*, 23 hostAliases HostAlias*, 24 priorityClassName s, 25
  priority i!, 26 dnsConfig PodDNSConfig!, 28 readinessGates PodReadinessGate*, 29 runtimeClassName s!, 30
  enableServiceLinks b!, 31 preemptionPolicy s!, 32 overhead {q}, 33 topologySpreadConstraints
  TopologySpreadConstraint*, 35 setHostnameAsFQDN b!, 36 os PodOS!, 37 hostUsers b!, 38 schedulingGates
  PodSchedulingGate*, 39 resourceClaims PodResourceClaim*, 40 resources ResourceRequirements!, 41 hostnameOverride s!,
  43 schedulingGroup PodSchedulingGroup!
Volume: 1 name s+, 2 ^ VolumeSource
VolumeSource: 1 hostPath HostPathVolumeSource!, 2 emptyDir EmptyDirVolumeSource!, 3 gcePersistentDisk
  GCEPersistentDiskVolumeSource!, 4 awsElasticBlockStore AWSElasticBlockStoreVolumeSource!, 5 gitRepo
  GitRepoVolumeSource!, 6 secret SecretVolumeSource!, 7 nfs NFSVolumeSource!, 8 iscsi ISCSIVolumeSource!, 9 glusterfs
  GlusterfsVolumeSource!, 10 persistentVolumeClaim PersistentVolumeClaimVolumeSource!, 11 rbd RBDVolumeSource!, 12
  flexVolume FlexVolumeSource!, 13 cinder CinderVolumeSource!, 14 cephfs CephFSVolumeSource!, 15 flocker
  FlockerVolumeSource!, 16 downwardAPI DownwardAPIVolumeSource!, 17 fc FCVolumeSource!, 18 azureFile
  AzureFileVolumeSource!, 19 configMap ConfigMapVolumeSource!, 20 vsphereVolume VsphereVirtualDiskVolumeSource!, 21
  quobyte QuobyteVolumeSource!, 22 azureDisk AzureDiskVolumeSource!, 23 photonPersistentDisk
  PhotonPersistentDiskVolumeSource!, 26 projected ProjectedVolumeSource!, 24 portworxVolume PortworxVolumeSource!, 25
  scaleIO ScaleIOVolumeSource!, 27 storageos StorageOSVolumeSource!, 28 csi CSIVolumeSource!, 29 ephemeral
  EphemeralVolumeSource!, 30 image ImageVolumeSource!
HostPathVolumeSource: 1 path s+, 2 type s!
EmptyDirVolumeSource: 1 medium s, 2 sizeLimit q!
GCEPersistentDiskVolumeSource: 1 pdName s+, 2 fsType s, 3 partition i, 4 readOnly b
AWSElasticBlockStoreVolumeSource: 1 volumeID s+, 2 fsType s, 3 partition i, 4 readOnly b
GitRepoVolumeSource: 1 repository s+, 2 revision s, 3 directory s
SecretVolumeSource: 1 secretName s, 2 items KeyToPath*, 3 defaultMode i!, 4 optional b!
KeyToPath: 1 key s+, 2 path s+, 3 mode i!
NFSVolumeSource: 1 server s+, 2 path s+, 3 readOnly b
ISCSIVolumeSource: 1 targetPortal s+, 2 iqn s+, 3 lun i+, 4 iscsiInterface s, 5 fsType s, 6 readOnly b, 7 portals s*,
  8 chapAuthDiscovery b, 11 chapAuthSession b, 10 secretRef LocalObjectReference!, 12 initiatorName s!
LocalObjectReference: 1 name s
GlusterfsVolumeSource: 1 endpoints s+, 2 path s+, 3 readOnly b
PersistentVolumeClaimVolumeSource: 1 claimName s+, 2 readOnly b
RBDVolumeSource: 1 monitors s*+, 2 image s+, 3 fsType s, 4 pool s, 5 user s, 6 keyring s, 7 secretRef
  LocalObjectReference!, 8 readOnly b
FlexVolumeSource: 1 driver s+, 2 fsType s, 3 secretRef LocalObjectReference!, 4 readOnly b, 5 options {s}
CinderVolumeSource: 1 volumeID s+, 2 fsType s, 3 readOnly b, 4 secretRef LocalObjectReference!
CephFSVolumeSource: 1 monitors s*+, 2 path s, 3 user s, 4 secretFile s, 5 secretRef LocalObjectReference!, 6 readOnly
  b
FlockerVolumeSource: 1 datasetName s, 2 datasetUUID s
DownwardAPIVolumeSource: 1 items DownwardAPIVolumeFile*, 2 defaultMode i!
DownwardAPIVolumeFile: 1 path s+, 2 fieldRef ObjectFieldSelector!, 3 resourceFieldRef ResourceFieldSelector!, 4 mode
  i!
ObjectFieldSelector: 1 apiVersion s, 2 fieldPath s+
ResourceFieldSelector: 1 containerName s, 2 resource s+, 3 divisor q
FCVolumeSource: 1 targetWWNs s*, 2 lun i!, 3 fsType s, 4 readOnly b, 5 wwids s*
AzureFileVolumeSource: 1 secretName s+, 2 shareName s+, 3 readOnly b
ConfigMapVolumeSource: 1 ^ LocalObjectReference, 2 items KeyToPath*, 3 defaultMode i!, 4 optional b!
VsphereVirtualDiskVolumeSource: 1 volumePath s+, 2 fsType s, 3 storagePolicyName s, 4 storagePolicyID s
QuobyteVolumeSource: 1 registry s+, 2 volume s+, 3 readOnly b, 4 user s, 5 group s, 6 tenant s
AzureDiskVolumeSource: 1 diskName s+, 2 diskURI s+, 3 cachingMode s!, 4 fsType s!, 5 readOnly b!, 6 kind s!
PhotonPersistentDiskVolumeSource: 1 pdID s+, 2 fsType s
ProjectedVolumeSource: 1 sources VolumeProjection*+, 2 defaultMode i!
VolumeProjection: 1 secret SecretProjection!, 2 downwardAPI DownwardAPIProjection!, 3 configMap ConfigMapProjection!,
  4 serviceAccountToken ServiceAccountTokenProjection!, 5 clusterTrustBundle ClusterTrustBundleProjection!, 6
  podCertificate PodCertificateProjection!
SecretProjection: 1 ^ LocalObjectReference, 2 items KeyToPath*, 4 optional b!
DownwardAPIProjection: 1 items DownwardAPIVolumeFile*
ConfigMapProjection: 1 ^ LocalObjectReference, 2 items KeyToPath*, 4 optional b!
ServiceAccountTokenProjection: 1 audience s, 2 expirationSeconds i!, 3 path s+
ClusterTrustBundleProjection: 1 name s!, 2 signerName s!, 3 labelSelector LabelSelector!, 5 optional b!, 4 path s+
LabelSelector: 1 matchLabels {s}, 2 matchExpressions LabelSelectorRequirement*
LabelSelectorRequirement: 1 key s+, 2 operator s+, 3 values s*
PodCertificateProjection: 1 signerName s, 2 keyType s, 3 maxExpirationSeconds i!, 4 credentialBundlePath s, 5 keyPath
  s, 6 certificateChainPath s, 7 userAnnotations {s}
PortworxVolumeSource: 1 volumeID s+, 2 fsType s, 3 readOnly b
ScaleIOVolumeSource: 1 gateway s+, 2 system s+, 3 secretRef LocalObjectReference!+, 4 sslEnabled b, 5 protectionDomain
  s, 6 storagePool s, 7 storageMode s, 8 volumeName s, 9 fsType s, 10 readOnly b
StorageOSVolumeSource: 1 volumeName s, 2 volumeNamespace s, 3 fsType s, 4 readOnly b, 5 secretRef
  LocalObjectReference!
CSIVolumeSource: 1 driver s+, 2 readOnly b!, 3 fsType s!, 4 volumeAttributes {s}, 5 nodePublishSecretRef
  LocalObjectReference!
EphemeralVolumeSource: 1 volumeClaimTemplate PersistentVolumeClaimTemplate!
PersistentVolumeClaimTemplate: 1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec+
PersistentVolumeClaimSpec: 1 accessModes s*, 4 selector LabelSelector!, 2 resources VolumeResourceRequirements, 3
  volumeName s, 5 storageClassName s!, 6 volumeMode s!, 7 dataSource TypedLocalObjectReference!, 8 dataSourceRef
  TypedObjectReference!, 9 volumeAttributesClassName s!
VolumeResourceRequirements: 1 limits {q}, 2 requests {q}
TypedLocalObjectReference: 1 apiGroup s!+, 2 kind s+, 3 name s+
TypedObjectReference: 1 apiGroup s!+, 2 kind s+, 3 name s+, 4 namespace s!
ImageVolumeSource: 1 reference s, 2 pullPolicy s
Container: 1 name s+, 2 image s, 3 command s*, 4 args s*, 5 workingDir s, 6 ports ContainerPort*, 19 envFrom
  EnvFromSource*, 7 env EnvVar*, 8 resources ResourceRequirements, 23 resizePolicy ContainerResizePolicy*, 24
  restartPolicy s!, 25 restartPolicyRules ContainerRestartRule*, 9 volumeMounts VolumeMount*, 21 volumeDevices
  VolumeDevice*, 10 livenessProbe Probe!, 11 readinessProbe Probe!, 22 startupProbe Probe!, 12 lifecycle Lifecycle!,
  13 terminationMessagePath s, 20 terminationMessagePolicy s, 14 imagePullPolicy s, 15 securityContext
  SecurityContext!, 16 stdin b, 17 stdinOnce b, 18 tty b
ContainerPort: 1 name s, 2 hostPort i, 3 containerPort i+, 4 protocol s, 5 hostIP s
EnvFromSource: 1 prefix s, 2 configMapRef ConfigMapEnvSource!, 3 secretRef SecretEnvSource!
ConfigMapEnvSource: 1 ^ LocalObjectReference, 2 optional b!
SecretEnvSource: 1 ^ LocalObjectReference, 2 optional b!
EnvVar: 1 name s+, 2 value s, 3 valueFrom EnvVarSource!
EnvVarSource: 1 fieldRef ObjectFieldSelector!, 2 resourceFieldRef ResourceFieldSelector!, 3 configMapKeyRef
  ConfigMapKeySelector!, 4 secretKeyRef SecretKeySelector!, 5 fileKeyRef FileKeySelector!
ConfigMapKeySelector: 1 ^ LocalObjectReference, 2 key s+, 3 optional b!
SecretKeySelector: 1 ^ LocalObjectReference, 2 key s+, 3 optional b!
FileKeySelector: 1 volumeName s+, 2 path s+, 3 key s+, 4 optional b!
ResourceRequirements: 1 limits {q}, 2 requests {q}, 3 claims ResourceClaim*
ResourceClaim: 1 name s+, 2 request s
ContainerResizePolicy: 1 resourceName s+, 2 restartPolicy s+
ContainerRestartRule: 1 action s, 2 exitCodes ContainerRestartRuleOnExitCodes!
ContainerRestartRuleOnExitCodes: 1 operator s, 2 values i*
VolumeMount: 1 name s+, 2 readOnly b, 7 recursiveReadOnly s!, 3 mountPath s+, 4 subPath s, 5 mountPropagation s!, 6
  subPathExpr s
VolumeDevice: 1 name s+, 2 devicePath s+
Probe: 1 ^ ProbeHandler, 2 initialDelaySeconds i, 3 timeoutSeconds i, 4 periodSeconds i, 5 successThreshold i, 6
  failureThreshold i, 7 terminationGracePeriodSeconds i!
ProbeHandler: 1 exec ExecAction!, 2 httpGet HTTPGetAction!, 3 tcpSocket TCPSocketAction!, 4 grpc GRPCAction!
ExecAction: 1 command s*
HTTPGetAction: 1 path s, 2 port o+, 3 host s, 4 scheme s, 5 httpHeaders HTTPHeader*
HTTPHeader: 1 name s+, 2 value s+
TCPSocketAction: 1 port o+, 2 host s
GRPCAction: 1 port i+, 2 service s!+
Lifecycle: 1 postStart LifecycleHandler!, 2 preStop LifecycleHandler!, 3 stopSignal s!
LifecycleHandler: 1 exec ExecAction!, 2 httpGet HTTPGetAction!, 3 tcpSocket TCPSocketAction!, 4 sleep SleepAction!
SleepAction: 1 seconds i+
SecurityContext: 1 capabilities Capabilities!, 2 privileged b!, 3 seLinuxOptions SELinuxOptions!, 10 windowsOptions
  WindowsSecurityContextOptions!, 4 runAsUser i!, 8 runAsGroup i!, 5 runAsNonRoot b!, 6 readOnlyRootFilesystem b!, 7
  allowPrivilegeEscalation b!, 9 procMount s!, 11 seccompProfile SeccompProfile!, 12 appArmorProfile AppArmorProfile!
Capabilities: 1 add s*, 2 drop s*
SELinuxOptions: 1 user s, 2 role s, 3 type s, 4 level s
WindowsSecurityContextOptions: 1 gmsaCredentialSpecName s!, 2 gmsaCredentialSpec s!, 3 runAsUserName s!, 4 hostProcess
  b!
SeccompProfile: 1 type s+, 2 localhostProfile s!
AppArmorProfile: 1 type s+, 2 localhostProfile s!
EphemeralContainer: 1 ^ EphemeralContainerCommon, 2 targetContainerName s
EphemeralContainerCommon: 1 name s+, 2 image s, 3 command s*, 4 args s*, 5 workingDir s, 6 ports ContainerPort*, 19
  envFrom EnvFromSource*, 7 env EnvVar*, 8 resources ResourceRequirements, 23 resizePolicy ContainerResizePolicy*, 24
  restartPolicy s!, 25 restartPolicyRules ContainerRestartRule*, 9 volumeMounts VolumeMount*, 21 volumeDevices
  VolumeDevice*, 10 livenessProbe Probe!, 11 readinessProbe Probe!, 22 startupProbe Probe!, 12 lifecycle Lifecycle!,
  13 terminationMessagePath s, 20 terminationMessagePolicy s, 14 imagePullPolicy s, 15 securityContext
  SecurityContext!, 16 stdin b, 17 stdinOnce b, 18 tty b
PodSecurityContext: 1 seLinuxOptions SELinuxOptions!, 8 windowsOptions WindowsSecurityContextOptions!, 2 runAsUser i!,
  6 runAsGroup i!, 3 runAsNonRoot b!, 4 supplementalGroups i*, 12 supplementalGroupsPolicy s!, 5 fsGroup i!, 7 sysctls
  Sysctl*, 9 fsGroupChangePolicy s!, 10 seccompProfile SeccompProfile!, 11 appArmorProfile AppArmorProfile!, 13
  seLinuxChangePolicy s!
Sysctl: 1 name s+, 2 value s+
Affinity: 1 nodeAffinity NodeAffinity!, 2 podAffinity PodAffinity!, 3 podAntiAffinity PodAntiAffinity!
NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector!, 2
  preferredDuringSchedulingIgnoredDuringExecution PreferredSchedulingTerm*
NodeSelector: 1 nodeSelectorTerms NodeSelectorTerm*+
NodeSelectorTerm: 1 matchExpressions NodeSelectorRequirement*, 2 matchFields NodeSelectorRequirement*
NodeSelectorRequirement: 1 key s+, 2 operator s+, 3 values s*
PreferredSchedulingTerm: 1 weight i+, 2 preference NodeSelectorTerm+
PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution PodAffinityTerm*, 2
  preferredDuringSchedulingIgnoredDuringExecution WeightedPodAffinityTerm*
PodAffinityTerm: 1 labelSelector LabelSelector!, 2 namespaces s*, 3 topologyKey s+, 4 namespaceSelector
  LabelSelector!, 5 matchLabelKeys s*, 6 mismatchLabelKeys s*
WeightedPodAffinityTerm: 1 weight i+, 2 podAffinityTerm PodAffinityTerm+
PodAntiAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution PodAffinityTerm*, 2
  preferredDuringSchedulingIgnoredDuringExecution WeightedPodAffinityTerm*
Toleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds i!
HostAlias: 1 ip s+, 2 hostnames s*
PodDNSConfig: 1 nameservers s*, 2 searches s*, 3 options PodDNSConfigOption*
PodDNSConfigOption: 1 name s, 2 value s!
PodReadinessGate: 1 conditionType s+
TopologySpreadConstraint: 1 maxSkew i+, 2 topologyKey s+, 3 whenUnsatisfiable s+, 4 labelSelector LabelSelector!, 5
  minDomains i!, 6 nodeAffinityPolicy s!, 7 nodeTaintsPolicy s!, 8 matchLabelKeys s*
PodOS: 1 name s+
PodSchedulingGate: 1 name s+
PodResourceClaim: 1 name s+, 3 resourceClaimName s!, 4 resourceClaimTemplateName s!
PodSchedulingGroup: 1 podGroupName s!
PodStatus: 17 observedGeneration i, 1 phase s, 2 conditions PodCondition*, 3 message s, 4 reason s, 11
  nominatedNodeName s, 5 hostIP s, 16 hostIPs HostIP*, 6 podIP s, 12 podIPs PodIP*, 7 startTime t, 10
  initContainerStatuses ContainerStatus*, 8 containerStatuses ContainerStatus*, 9 qosClass s, 13
  ephemeralContainerStatuses ContainerStatus*, 14 resize s, 15 resourceClaimStatuses PodResourceClaimStatus*, 18
  extendedResourceClaimStatus PodExtendedResourceClaimStatus!, 19 allocatedResources {q}, 20 resources
  ResourceRequirements!, 21 nodeAllocatableResourceClaimStatuses NodeAllocatableResourceClaimStatus*
PodCondition: 1 type s+, 7 observedGeneration i, 2 status s+, 3 lastProbeTime t, 4 lastTransitionTime t, 5 reason s, 6
  message s
HostIP: 1 ip s+
PodIP: 1 ip s+
ContainerStatus: 1 name s+, 2 state ContainerState, 3 lastState ContainerState, 4 ready b+, 5 restartCount i+, 6 image
  s+, 7 imageID s+, 8 containerID s, 9 started b!, 10 allocatedResources {q}, 11 resources ResourceRequirements!, 12
  volumeMounts VolumeMountStatus*, 13 user ContainerUser!, 14 allocatedResourcesStatus ResourceStatus*, 15 stopSignal
  s!
ContainerState: 1 waiting ContainerStateWaiting!, 2 running ContainerStateRunning!, 3 terminated
  ContainerStateTerminated!
ContainerStateWaiting: 1 reason s, 2 message s
ContainerStateRunning: 1 startedAt t
ContainerStateTerminated: 1 exitCode i+, 2 signal i, 3 reason s, 4 message s, 5 startedAt t, 6 finishedAt t, 7
  containerID s
VolumeMountStatus: 1 name s+, 2 mountPath s+, 3 readOnly b, 4 recursiveReadOnly s!, 5 volumeStatus VolumeStatus!
VolumeStatus: 1 image ImageVolumeStatus!
ImageVolumeStatus: 1 imageRef s
ContainerUser: 1 linux LinuxContainerUser!
LinuxContainerUser: 1 uid i+, 2 gid i+, 3 supplementalGroups i*
ResourceStatus: 1 name s+, 2 resources ResourceHealth*
ResourceHealth: 1 resourceID s+, 2 health s, 6 message s!
PodResourceClaimStatus: 1 name s+, 2 resourceClaimName s!
PodExtendedResourceClaimStatus: 1 requestMappings ContainerExtendedResourceRequest*+, 2 resourceClaimName s+
ContainerExtendedResourceRequest: 1 containerName s+, 2 resourceName s+, 3 requestName s+
NodeAllocatableResourceClaimStatus: 1 resourceClaimName s+, 2 containers s*, 3 resources {q}
Node: 1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus
NodeSpec: 1 podCIDR s, 7 podCIDRs s*, 3 providerID s, 4 unschedulable b, 5 taints Taint*, 6 configSource
  NodeConfigSource!, 2 externalID s
Taint: 1 key s+, 2 value s, 3 effect s+, 4 timeAdded t
NodeConfigSource: 2 configMap ConfigMapNodeConfigSource!
ConfigMapNodeConfigSource: 1 namespace s+, 2 name s+, 3 uid s, 4 resourceVersion s, 5 kubeletConfigKey s+
NodeStatus: 1 capacity {q}, 2 allocatable {q}, 3 phase s, 4 conditions NodeCondition*, 5 addresses NodeAddress*, 6
  daemonEndpoints NodeDaemonEndpoints, 7 nodeInfo NodeSystemInfo, 8 images ContainerImage*, 9 volumesInUse s*, 10
  volumesAttached AttachedVolume*, 11 config NodeConfigStatus!, 12 runtimeHandlers NodeRuntimeHandler*, 13 features
  NodeFeatures!, 14 declaredFeatures s*
NodeCondition: 1 type s+, 2 status s+, 3 lastHeartbeatTime t, 4 lastTransitionTime t, 5 reason s, 6 message s
NodeAddress: 1 type s+, 2 address s+
NodeDaemonEndpoints: 1 kubeletEndpoint DaemonEndpoint
DaemonEndpoint: 1 Port i+
NodeSystemInfo: 1 machineID s+, 2 systemUUID s+, 3 bootID s+, 4 kernelVersion s+, 5 osImage s+, 6
  containerRuntimeVersion s+, 7 kubeletVersion s+, 8 kubeProxyVersion s+, 9 operatingSystem s+, 10 architecture s+, 11
  swap NodeSwapStatus!
NodeSwapStatus: 1 capacity i!
ContainerImage: 1 names s*+, 2 sizeBytes i
AttachedVolume: 1 name s+, 2 devicePath s+
NodeConfigStatus: 1 assigned NodeConfigSource!, 2 active NodeConfigSource!, 3 lastKnownGood NodeConfigSource!, 4 error
  s
NodeRuntimeHandler: 1 name s+, 2 features NodeRuntimeHandlerFeatures!
NodeRuntimeHandlerFeatures: 1 recursiveReadOnlyMounts b!, 2 userNamespaces b!
NodeFeatures: 1 supplementalGroupsPolicy b!
Service: 1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus
ServiceSpec: 1 ports ServicePort*, 2 selector {s}, 3 clusterIP s, 18 clusterIPs s*, 4 type s, 5 externalIPs s*, 7
  sessionAffinity s, 8 loadBalancerIP s, 9 loadBalancerSourceRanges s*, 10 externalName s, 11 externalTrafficPolicy s,
  12 healthCheckNodePort i, 13 publishNotReadyAddresses b, 14 sessionAffinityConfig SessionAffinityConfig!, 19
  ipFamilies s*, 17 ipFamilyPolicy s!, 20 allocateLoadBalancerNodePorts b!, 21 loadBalancerClass s!, 22
  internalTrafficPolicy s!, 23 trafficDistribution s!
ServicePort: 1 name s, 2 protocol s, 6 appProtocol s!, 3 port i+, 4 targetPort o, 5 nodePort i
SessionAffinityConfig: 1 clientIP ClientIPConfig!
ClientIPConfig: 1 timeoutSeconds i!
ServiceStatus: 1 loadBalancer LoadBalancerStatus, 2 conditions Condition*
LoadBalancerStatus: 1 ingress LoadBalancerIngress*
LoadBalancerIngress: 1 ip s, 2 hostname s, 3 ipMode s!, 4 ports PortStatus*
PortStatus: 1 port i+, 2 protocol s+, 3 error s!
Condition: 1 type s+, 2 status s+, 3 observedGeneration i, 4 lastTransitionTime t+, 5 reason s+, 6 message s+
Endpoints: 1 metadata ObjectMeta, 2 subsets EndpointSubset*
EndpointSubset: 1 addresses EndpointAddress*, 2 notReadyAddresses EndpointAddress*, 3 ports EndpointPort*
EndpointAddress: 1 ip s+, 3 hostname s, 4 nodeName s!, 2 targetRef ObjectReference!
ObjectReference: 1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, 7 fieldPath s
EndpointPort: 1 name s, 2 port i+, 3 protocol s, 4 appProtocol s!
ConfigMap: 1 metadata ObjectMeta, 4 immutable b!, 2 data {s}, 3 binaryData {y}
Secret: 1 metadata ObjectMeta, 5 immutable b!, 2 data {y}, 4 stringData {s}, 3 type s
Event: 1 metadata ObjectMeta+, 2 involvedObject ObjectReference+, 3 reason s, 4 message s, 5 source EventSource, 6
  firstTimestamp t, 7 lastTimestamp t, 8 count i, 9 type s, 10 eventTime u, 11 series EventSeries!, 12 action s, 13
  related ObjectReference!, 14 reportingComponent s+, 15 reportingInstance s+
EventSource: 1 component s, 2 host s
EventSeries: 1 count i, 2 lastObservedTime u
ServiceAccount: 1 metadata ObjectMeta, 2 secrets ObjectReference*, 3 imagePullSecrets LocalObjectReference*, 4
  automountServiceAccountToken b!
PersistentVolume: 1 metadata ObjectMeta, 2 spec PersistentVolumeSpec, 3 status PersistentVolumeStatus
PersistentVolumeSpec: 1 capacity {q}, 2 ^ PersistentVolumeSource, 3 accessModes s*, 4 claimRef ObjectReference!, 5
  persistentVolumeReclaimPolicy s, 6 storageClassName s, 7 mountOptions s*, 8 volumeMode s!, 9 nodeAffinity
  VolumeNodeAffinity!, 10 volumeAttributesClassName s!
PersistentVolumeSource: 1 gcePersistentDisk GCEPersistentDiskVolumeSource!, 2 awsElasticBlockStore
  AWSElasticBlockStoreVolumeSource!, 3 hostPath HostPathVolumeSource!, 4 glusterfs GlusterfsPersistentVolumeSource!, 5
  nfs NFSVolumeSource!, 6 rbd RBDPersistentVolumeSource!, 7 iscsi ISCSIPersistentVolumeSource!, 8 cinder
  CinderPersistentVolumeSource!, 9 cephfs CephFSPersistentVolumeSource!, 10 fc FCVolumeSource!, 11 flocker
  FlockerVolumeSource!, 12 flexVolume FlexPersistentVolumeSource!, 13 azureFile AzureFilePersistentVolumeSource!, 14
  vsphereVolume VsphereVirtualDiskVolumeSource!, 15 quobyte QuobyteVolumeSource!, 16 azureDisk AzureDiskVolumeSource!,
  17 photonPersistentDisk PhotonPersistentDiskVolumeSource!, 18 portworxVolume PortworxVolumeSource!, 19 scaleIO
  ScaleIOPersistentVolumeSource!, 20 local LocalVolumeSource!, 21 storageos StorageOSPersistentVolumeSource!, 22 csi
  CSIPersistentVolumeSource!
GlusterfsPersistentVolumeSource: 1 endpoints s+, 2 path s+, 3 readOnly b, 4 endpointsNamespace s!
RBDPersistentVolumeSource: 1 monitors s*+, 2 image s+, 3 fsType s, 4 pool s, 5 user s, 6 keyring s, 7 secretRef
  SecretReference!, 8 readOnly b
SecretReference: 1 name s, 2 namespace s
ISCSIPersistentVolumeSource: 1 targetPortal s+, 2 iqn s+, 3 lun i+, 4 iscsiInterface s, 5 fsType s, 6 readOnly b, 7
  portals s*, 8 chapAuthDiscovery b, 11 chapAuthSession b, 10 secretRef SecretReference!, 12 initiatorName s!
CinderPersistentVolumeSource: 1 volumeID s+, 2 fsType s, 3 readOnly b, 4 secretRef SecretReference!
CephFSPersistentVolumeSource: 1 monitors s*+, 2 path s, 3 user s, 4 secretFile s, 5 secretRef SecretReference!, 6
  readOnly b
FlexPersistentVolumeSource: 1 driver s+, 2 fsType s, 3 secretRef SecretReference!, 4 readOnly b, 5 options {s}
AzureFilePersistentVolumeSource: 1 secretName s+, 2 shareName s+, 3 readOnly b, 4 secretNamespace s!+
ScaleIOPersistentVolumeSource: 1 gateway s+, 2 system s+, 3 secretRef SecretReference!+, 4 sslEnabled b, 5
  protectionDomain s, 6 storagePool s, 7 storageMode s, 8 volumeName s, 9 fsType s, 10 readOnly b
LocalVolumeSource: 1 path s+, 2 fsType s!
StorageOSPersistentVolumeSource: 1 volumeName s, 2 volumeNamespace s, 3 fsType s, 4 readOnly b, 5 secretRef
  ObjectReference!
CSIPersistentVolumeSource: 1 driver s+, 2 volumeHandle s+, 3 readOnly b, 4 fsType s, 5 volumeAttributes {s}, 6
  controllerPublishSecretRef SecretReference!, 7 nodeStageSecretRef SecretReference!, 8 nodePublishSecretRef
  SecretReference!, 9 controllerExpandSecretRef SecretReference!, 10 nodeExpandSecretRef SecretReference!
VolumeNodeAffinity: 1 required NodeSelector!
PersistentVolumeStatus: 1 phase s, 2 message s, 3 reason s, 4 lastPhaseTransitionTime t
PersistentVolumeClaim: 1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec, 3 status PersistentVolumeClaimStatus
PersistentVolumeClaimStatus: 1 phase s, 2 accessModes s*, 3 capacity {q}, 4 conditions
  PersistentVolumeClaimCondition*, 5 allocatedResources {q}, 7 allocatedResourceStatuses {s}, 8
  currentVolumeAttributesClassName s!, 9 modifyVolumeStatus ModifyVolumeStatus!
PersistentVolumeClaimCondition: 1 type s+, 2 status s+, 3 lastProbeTime t, 4 lastTransitionTime t, 5 reason s, 6
  message s
ModifyVolumeStatus: 1 targetVolumeAttributesClassName s, 2 status s+
ResourceQuota: 1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus
ResourceQuotaSpec: 1 hard {q}, 2 scopes s*, 3 scopeSelector ScopeSelector!
ScopeSelector: 1 matchExpressions ScopedResourceSelectorRequirement*
ScopedResourceSelectorRequirement: 1 scopeName s+, 2 operator s+, 3 values s*
ResourceQuotaStatus: 1 hard {q}, 2 used {q}
LimitRange: 1 metadata ObjectMeta, 2 spec LimitRangeSpec
LimitRangeSpec: 1 limits LimitRangeItem*+
LimitRangeItem: 1 type s+, 2 max {q}, 3 min {q}, 4 default {q}, 5 defaultRequest {q}, 6 maxLimitRequestRatio {q}
Binding: 1 metadata ObjectMeta, 2 target ObjectReference+
PodTemplateSpec: 1 metadata ObjectMeta, 2 spec PodSpec
FieldSelectorRequirement: 1 key s+, 2 operator s+, 3 values s*
DeleteOptions: 1 gracePeriodSeconds i!, 2 preconditions Preconditions!, 3 orphanDependents b!, 4 propagationPolicy s!,
  5 dryRun s*, 6 ignoreStoreReadErrorWithClusterBreakingPotential b!
Preconditions: 1 uid s!, 2 resourceVersion s!
TopologySelectorTerm: 1 matchLabelExpressions TopologySelectorLabelRequirement*
TopologySelectorLabelRequirement: 1 key s+, 2 values s*+
"""
