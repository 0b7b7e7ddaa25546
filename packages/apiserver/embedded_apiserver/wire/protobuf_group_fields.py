"""The field numbers of the messages of all other groups, in the form of those of the core group."""

from __future__ import annotations

from typing import Final

__all__ = ["GROUPS"]

GROUPS: Final = """
Job: 1 metadata ObjectMeta, 2 spec JobSpec, 3 status JobStatus
JobSpec: 1 parallelism i!, 2 completions i!, 3 activeDeadlineSeconds i!, 11 podFailurePolicy PodFailurePolicy!, 16
  successPolicy SuccessPolicy!, 7 backoffLimit i!, 12 backoffLimitPerIndex i!, 13 maxFailedIndexes i!, 4 selector
  LabelSelector!, 5 manualSelector b!, 6 template PodTemplateSpec+, 8 ttlSecondsAfterFinished i!, 9 completionMode s!,
  10 suspend b!, 14 podReplacementPolicy s!, 15 managedBy s!
PodFailurePolicy: 1 rules PodFailurePolicyRule*+
PodFailurePolicyRule: 1 action s+, 2 onExitCodes PodFailurePolicyOnExitCodesRequirement!, 3 onPodConditions
  PodFailurePolicyOnPodConditionsPattern*
PodFailurePolicyOnExitCodesRequirement: 1 containerName s!, 2 operator s+, 3 values i*+
PodFailurePolicyOnPodConditionsPattern: 1 type s+, 2 status s+
SuccessPolicy: 1 rules SuccessPolicyRule*+
SuccessPolicyRule: 1 succeededIndexes s!, 2 succeededCount i!
JobStatus: 1 conditions JobCondition*, 2 startTime t, 3 completionTime t, 4 active i, 5 succeeded i, 6 failed i, 11
  terminating i!, 7 completedIndexes s, 10 failedIndexes s!, 8 uncountedTerminatedPods UncountedTerminatedPods!, 9
  ready i!
JobCondition: 1 type s+, 2 status s+, 3 lastProbeTime t, 4 lastTransitionTime t, 5 reason s, 6 message s
UncountedTerminatedPods: 1 succeeded s*, 2 failed s*
CronJob: 1 metadata ObjectMeta, 2 spec CronJobSpec, 3 status CronJobStatus
CronJobSpec: 1 schedule s+, 8 timeZone s!, 2 startingDeadlineSeconds i!, 3 concurrencyPolicy s, 4 suspend b!, 5
  jobTemplate JobTemplateSpec+, 6 successfulJobsHistoryLimit i!, 7 failedJobsHistoryLimit i!
JobTemplateSpec: 1 metadata ObjectMeta, 2 spec JobSpec
CronJobStatus: 1 active ObjectReference*, 4 lastScheduleTime t, 5 lastSuccessfulTime t
PriorityClass: 1 metadata ObjectMeta, 2 value i+, 3 globalDefault b, 4 description s, 5 preemptionPolicy s!
TokenRequest: 1 metadata ObjectMeta, 2 spec TokenRequestSpec+, 3 status TokenRequestStatus
TokenRequestSpec: 1 audiences s*+, 4 expirationSeconds i!+, 3 boundObjectRef BoundObjectReference!+
BoundObjectReference: 1 kind s, 2 apiVersion s, 3 name s, 4 uid s
TokenRequestStatus: 1 token s+, 2 expirationTimestamp t+
SelfSubjectReview: 1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus
SelfSubjectReviewStatus: 1 userInfo UserInfo
UserInfo: 1 username s, 2 uid s, 3 groups s*, 4 extra {@s}
TokenReview: 1 metadata ObjectMeta, 2 spec TokenReviewSpec+, 3 status TokenReviewStatus
TokenReviewSpec: 1 token s, 2 audiences s*
TokenReviewStatus: 1 authenticated b, 2 user UserInfo, 4 audiences s*, 3 error s
SelfSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec+, 3 status
  SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes!, 2 nonResourceAttributes NonResourceAttributes!
ResourceAttributes: 1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, 6 subresource s, 7 name s, 8
  fieldSelector FieldSelectorAttributes!, 9 labelSelector LabelSelectorAttributes!
FieldSelectorAttributes: 1 rawSelector s, 2 requirements FieldSelectorRequirement*
LabelSelectorAttributes: 1 rawSelector s, 2 requirements LabelSelectorRequirement*
NonResourceAttributes: 1 path s, 2 verb s
SubjectAccessReviewStatus: 1 allowed b+, 4 denied b, 2 reason s, 3 evaluationError s
SelfSubjectRulesReview: 1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec+, 3 status SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: 1 namespace s
SubjectRulesReviewStatus: 1 resourceRules ResourceRule*+, 2 nonResourceRules NonResourceRule*+, 3 incomplete b+, 4
  evaluationError s
ResourceRule: 1 verbs s*+, 2 apiGroups s*, 3 resources s*, 4 resourceNames s*
NonResourceRule: 1 verbs s*+, 2 nonResourceURLs s*
SubjectAccessReview: 1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec+, 3 status SubjectAccessReviewStatus
SubjectAccessReviewSpec: 1 resourceAttributes ResourceAttributes!, 2 nonResourceAttributes NonResourceAttributes!, 3
  user s, 4 groups s*, 5 extra {@s}, 6 uid s
LocalSubjectAccessReview: 1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec+, 3 status SubjectAccessReviewStatus
PodDisruptionBudget: 1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus
PodDisruptionBudgetSpec: 1 minAvailable o!, 2 selector LabelSelector!, 3 maxUnavailable o!, 4
  unhealthyPodEvictionPolicy s!
PodDisruptionBudgetStatus: 1 observedGeneration i, 2 disruptedPods {t}, 3 disruptionsAllowed i+, 4 currentHealthy i+,
  5 desiredHealthy i+, 6 expectedPods i+, 7 conditions Condition*
Eviction: 1 metadata ObjectMeta, 2 deleteOptions DeleteOptions!
Deployment: 1 metadata ObjectMeta, 2 spec DeploymentSpec, 3 status DeploymentStatus
DeploymentSpec: 1 replicas i!, 2 selector LabelSelector!+, 3 template PodTemplateSpec+, 4 strategy DeploymentStrategy,
  5 minReadySeconds i, 6 revisionHistoryLimit i!, 7 paused b, 9 progressDeadlineSeconds i!
DeploymentStrategy: 1 type s, 2 rollingUpdate RollingUpdateDeployment!
RollingUpdateDeployment: 1 maxUnavailable o!, 2 maxSurge o!
DeploymentStatus: 1 observedGeneration i, 2 replicas i, 3 updatedReplicas i, 7 readyReplicas i, 4 availableReplicas i,
  5 unavailableReplicas i, 9 terminatingReplicas i!, 6 conditions DeploymentCondition*, 8 collisionCount i!
DeploymentCondition: 1 type s+, 2 status s+, 6 lastUpdateTime t, 7 lastTransitionTime t, 4 reason s, 5 message s
StatefulSet: 1 metadata ObjectMeta, 2 spec StatefulSetSpec, 3 status StatefulSetStatus
StatefulSetSpec: 1 replicas i!, 2 selector LabelSelector!+, 3 template PodTemplateSpec+, 4 volumeClaimTemplates
  PersistentVolumeClaim*, 5 serviceName s+, 6 podManagementPolicy s, 7 updateStrategy StatefulSetUpdateStrategy, 8
  revisionHistoryLimit i!, 9 minReadySeconds i, 10 persistentVolumeClaimRetentionPolicy
  StatefulSetPersistentVolumeClaimRetentionPolicy!, 11 ordinals StatefulSetOrdinals!
StatefulSetUpdateStrategy: 1 type s, 2 rollingUpdate RollingUpdateStatefulSetStrategy!
RollingUpdateStatefulSetStrategy: 1 partition i!, 2 maxUnavailable o!
StatefulSetPersistentVolumeClaimRetentionPolicy: 1 whenDeleted s, 2 whenScaled s
StatefulSetOrdinals: 1 start i+
StatefulSetStatus: 1 observedGeneration i, 2 replicas i+, 3 readyReplicas i, 4 currentReplicas i, 5 updatedReplicas i,
  6 currentRevision s, 7 updateRevision s, 9 collisionCount i!, 10 conditions StatefulSetCondition*, 11
  availableReplicas i+
StatefulSetCondition: 1 type s+, 2 status s+, 3 lastTransitionTime t, 4 reason s, 5 message s
ReplicaSet: 1 metadata ObjectMeta, 2 spec ReplicaSetSpec, 3 status ReplicaSetStatus
ReplicaSetSpec: 1 replicas i!, 4 minReadySeconds i, 2 selector LabelSelector!+, 3 template PodTemplateSpec
ReplicaSetStatus: 1 replicas i+, 2 fullyLabeledReplicas i, 4 readyReplicas i, 5 availableReplicas i, 7
  terminatingReplicas i!, 3 observedGeneration i, 6 conditions ReplicaSetCondition*
ReplicaSetCondition: 1 type s+, 2 status s+, 3 lastTransitionTime t, 4 reason s, 5 message s
DaemonSet: 1 metadata ObjectMeta, 2 spec DaemonSetSpec, 3 status DaemonSetStatus
DaemonSetSpec: 1 selector LabelSelector!+, 2 template PodTemplateSpec+, 3 updateStrategy DaemonSetUpdateStrategy, 4
  minReadySeconds i, 6 revisionHistoryLimit i!
DaemonSetUpdateStrategy: 1 type s, 2 rollingUpdate RollingUpdateDaemonSet!
RollingUpdateDaemonSet: 1 maxUnavailable o!, 2 maxSurge o!
DaemonSetStatus: 1 currentNumberScheduled i+, 2 numberMisscheduled i+, 3 desiredNumberScheduled i+, 4 numberReady i+,
  5 observedGeneration i, 6 updatedNumberScheduled i, 7 numberAvailable i, 8 numberUnavailable i, 9 collisionCount i!,
  10 conditions DaemonSetCondition*
DaemonSetCondition: 1 type s+, 2 status s+, 3 lastTransitionTime t, 4 reason s, 5 message s
ControllerRevision: 1 metadata ObjectMeta, 2 data r, 3 revision i+
Ingress: 1 metadata ObjectMeta, 2 spec IngressSpec, 3 status IngressStatus
IngressSpec: 4 ingressClassName s!, 1 defaultBackend IngressBackend!, 2 tls IngressTLS*, 3 rules IngressRule*
IngressBackend: 4 service IngressServiceBackend!, 3 resource TypedLocalObjectReference!
IngressServiceBackend: 1 name s+, 2 port ServiceBackendPort
ServiceBackendPort: 1 name s, 2 number i
IngressTLS: 1 hosts s*, 2 secretName s
IngressRule: 1 host s, 2 ^ IngressRuleValue
IngressRuleValue: 1 http HTTPIngressRuleValue!
HTTPIngressRuleValue: 1 paths HTTPIngressPath*+
HTTPIngressPath: 1 path s, 3 pathType s!+, 2 backend IngressBackend+
IngressStatus: 1 loadBalancer IngressLoadBalancerStatus
IngressLoadBalancerStatus: 1 ingress IngressLoadBalancerIngress*
IngressLoadBalancerIngress: 1 ip s, 2 hostname s, 4 ports IngressPortStatus*
IngressPortStatus: 1 port i+, 2 protocol s+, 3 error s!
IngressClass: 1 metadata ObjectMeta, 2 spec IngressClassSpec
IngressClassSpec: 1 controller s, 2 parameters IngressClassParametersReference!
IngressClassParametersReference: 1 apiGroup s!, 2 kind s+, 3 name s+, 4 scope s!, 5 namespace s!
NetworkPolicy: 1 metadata ObjectMeta, 2 spec NetworkPolicySpec
NetworkPolicySpec: 1 podSelector LabelSelector+, 2 ingress NetworkPolicyIngressRule*, 3 egress
  NetworkPolicyEgressRule*, 4 policyTypes s*
NetworkPolicyIngressRule: 1 ports NetworkPolicyPort*, 2 from NetworkPolicyPeer*
NetworkPolicyPort: 1 protocol s!, 2 port o!, 3 endPort i!
NetworkPolicyPeer: 1 podSelector LabelSelector!, 2 namespaceSelector LabelSelector!, 3 ipBlock IPBlock!
IPBlock: 1 cidr s+, 2 except s*
NetworkPolicyEgressRule: 1 ports NetworkPolicyPort*, 2 to NetworkPolicyPeer*
Role: 1 metadata ObjectMeta, 2 rules PolicyRule*+
PolicyRule: 1 verbs s*+, 2 apiGroups s*, 3 resources s*, 4 resourceNames s*, 5 nonResourceURLs s*
RoleBinding: 1 metadata ObjectMeta, 2 subjects Subject*, 3 roleRef RoleRef+
Subject: 1 kind s+, 2 apiGroup s, 3 name s+, 4 namespace s
RoleRef: 1 apiGroup s+, 2 kind s+, 3 name s+
ClusterRole: 1 metadata ObjectMeta, 2 rules PolicyRule*+, 3 aggregationRule AggregationRule!
AggregationRule: 1 clusterRoleSelectors LabelSelector*
ClusterRoleBinding: 1 metadata ObjectMeta, 2 subjects Subject*, 3 roleRef RoleRef+
Lease: 1 metadata ObjectMeta, 2 spec LeaseSpec
LeaseSpec: 1 holderIdentity s!, 2 leaseDurationSeconds i!, 3 acquireTime u, 4 renewTime u, 5 leaseTransitions i!, 6
  strategy s!, 7 preferredHolder s!
events.Event: 1 metadata ObjectMeta+, 2 eventTime u+, 3 series events.EventSeries!, 4 reportingController s, 5
  reportingInstance s, 6 action s, 7 reason s, 8 regarding ObjectReference, 9 related ObjectReference!, 10 note s, 11
  type s, 12 deprecatedSource EventSource, 13 deprecatedFirstTimestamp t, 14 deprecatedLastTimestamp t, 15
  deprecatedCount i
events.EventSeries: 1 count i+, 2 lastObservedTime u+
Scale: 1 metadata ObjectMeta, 2 spec ScaleSpec, 3 status ScaleStatus
ScaleSpec: 1 replicas i
ScaleStatus: 1 replicas i+, 2 selector s
StorageClass: 1 metadata ObjectMeta, 2 provisioner s+, 3 parameters {s}, 4 reclaimPolicy s!, 5 mountOptions s*, 6
  allowVolumeExpansion b!, 7 volumeBindingMode s!, 8 allowedTopologies TopologySelectorTerm*
CSINode: 1 metadata ObjectMeta, 2 spec CSINodeSpec+
CSINodeSpec: 1 drivers CSINodeDriver*+
CSINodeDriver: 1 name s+, 2 nodeID s+, 3 topologyKeys s*+, 4 allocatable VolumeNodeResources!
VolumeNodeResources: 1 count i!
CSIDriver: 1 metadata ObjectMeta, 2 spec CSIDriverSpec+
CSIDriverSpec: 1 attachRequired b!, 2 podInfoOnMount b!, 3 volumeLifecycleModes s*, 4 storageCapacity b!, 5
  fsGroupPolicy s!, 6 tokenRequests storage.TokenRequest*, 7 requiresRepublish b!, 8 seLinuxMount b!, 9
  nodeAllocatableUpdatePeriodSeconds i!, 10 serviceAccountTokenInSecrets b!, 11 preventPodSchedulingIfMissing b!
storage.TokenRequest: 1 audience s+, 2 expirationSeconds i!
CSIStorageCapacity: 1 metadata ObjectMeta, 2 nodeTopology LabelSelector!, 3 storageClassName s+, 4 capacity q!, 5
  maximumVolumeSize q!
VolumeAttachment: 1 metadata ObjectMeta, 2 spec VolumeAttachmentSpec+, 3 status VolumeAttachmentStatus
VolumeAttachmentSpec: 1 attacher s+, 2 source VolumeAttachmentSource+, 3 nodeName s+
VolumeAttachmentSource: 1 persistentVolumeName s!, 2 inlineVolumeSpec PersistentVolumeSpec!
VolumeAttachmentStatus: 1 attached b+, 2 attachmentMetadata {s}, 3 attachError VolumeError!, 4 detachError
  VolumeError!
VolumeError: 1 time t, 2 message s, 3 errorCode i!
resource.ResourceClaim: 1 metadata ObjectMeta, 2 spec ResourceClaimSpec+, 3 status ResourceClaimStatus
ResourceClaimSpec: 1 devices DeviceClaim+
DeviceClaim: 1 requests DeviceRequest*+, 2 constraints DeviceConstraint*, 3 config DeviceClaimConfiguration*
DeviceRequest: 1 name s+, 2 exactly ExactDeviceRequest!, 3 firstAvailable DeviceSubRequest*
ExactDeviceRequest: 1 deviceClassName s+, 2 selectors DeviceSelector*, 3 allocationMode s, 4 count i, 5 adminAccess
  b!, 6 tolerations DeviceToleration*, 7 capacity CapacityRequirements!
DeviceSelector: 1 cel CELDeviceSelector!
CELDeviceSelector: 1 expression s+
DeviceToleration: 1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds i!
CapacityRequirements: 1 requests {q}
DeviceSubRequest: 1 name s+, 2 deviceClassName s+, 3 selectors DeviceSelector*, 4 allocationMode s, 5 count i, 6
  tolerations DeviceToleration*, 7 capacity CapacityRequirements!
DeviceConstraint: 1 requests s*, 2 matchAttribute s!, 3 distinctAttribute s!
DeviceClaimConfiguration: 1 requests s*, 2 ^ DeviceConfiguration
DeviceConfiguration: 1 opaque OpaqueDeviceConfiguration!
OpaqueDeviceConfiguration: 1 driver s+, 2 parameters r+
ResourceClaimStatus: 1 allocation AllocationResult!, 2 reservedFor ResourceClaimConsumerReference*, 4 devices
  AllocatedDeviceStatus*
AllocationResult: 1 devices DeviceAllocationResult, 3 nodeSelector NodeSelector!, 5 allocationTimestamp t
DeviceAllocationResult: 1 results DeviceRequestAllocationResult*, 2 config DeviceAllocationConfiguration*
DeviceRequestAllocationResult: 1 request s+, 2 driver s+, 3 pool s+, 4 device s+, 5 adminAccess b!, 6 tolerations
  DeviceToleration*, 7 bindingConditions s*, 8 bindingFailureConditions s*, 9 shareID s!, 10 consumedCapacity {q}
DeviceAllocationConfiguration: 1 source s+, 2 requests s*, 3 ^ DeviceConfiguration
ResourceClaimConsumerReference: 1 apiGroup s, 3 resource s+, 4 name s+, 5 uid s+
AllocatedDeviceStatus: 1 driver s+, 2 pool s+, 3 device s+, 7 shareID s!, 4 conditions Condition*+, 5 data r!, 6
  networkData NetworkDeviceData!
NetworkDeviceData: 1 interfaceName s, 2 ips s*, 3 hardwareAddress s
ResourceClaimTemplate: 1 metadata ObjectMeta, 2 spec ResourceClaimTemplateSpec+
ResourceClaimTemplateSpec: 1 metadata ObjectMeta, 2 spec ResourceClaimSpec+
ResourceSlice: 1 metadata ObjectMeta, 2 spec ResourceSliceSpec+
ResourceSliceSpec: 1 driver s+, 2 pool ResourcePool+, 3 nodeName s!, 4 nodeSelector NodeSelector!, 5 allNodes b!, 6
  devices Device*, 7 perDeviceNodeSelection b!, 8 sharedCounters CounterSet*
ResourcePool: 1 name s+, 2 generation i+, 3 resourceSliceCount i+
Device: 1 name s+, 2 attributes {DeviceAttribute}, 3 capacity {DeviceCapacity}, 4 consumesCounters
  DeviceCounterConsumption*, 5 nodeName s!, 6 nodeSelector NodeSelector!, 7 allNodes b!, 8 taints DeviceTaint*, 9
  bindsToNode b!, 10 bindingConditions s*, 11 bindingFailureConditions s*, 12 allowMultipleAllocations b!, 13
  nodeAllocatableResourceMappings {NodeAllocatableResourceMapping}
DeviceAttribute: 2 int i!, 3 bool b!, 4 string s!, 5 version s!, 6 ints i*, 7 bools b*, 8 strings s*, 9 versions s*
DeviceCapacity: 1 value q+, 2 requestPolicy CapacityRequestPolicy!
CapacityRequestPolicy: 1 default q!+, 3 validValues q*, 4 validRange CapacityRequestPolicyRange!
CapacityRequestPolicyRange: 1 min q!, 2 max q!, 3 step q!
DeviceCounterConsumption: 1 counterSet s+, 2 counters {Counter}
Counter: 1 value q+
DeviceTaint: 1 key s+, 2 value s, 3 effect s+, 4 timeAdded t
NodeAllocatableResourceMapping: 1 capacityKey s!, 2 allocationMultiplier q!
CounterSet: 1 name s+, 2 counters {Counter}
DeviceClass: 1 metadata ObjectMeta, 2 spec DeviceClassSpec+
DeviceClassSpec: 1 selectors DeviceSelector*, 2 config DeviceClassConfiguration*, 4 extendedResourceName s!
DeviceClassConfiguration: 1 ^ DeviceConfiguration
MutatingWebhookConfiguration: 1 metadata ObjectMeta, 2 webhooks MutatingWebhook*
MutatingWebhook: 1 name s+, 2 clientConfig WebhookClientConfig+, 3 rules RuleWithOperations*, 4 failurePolicy s!, 9
  matchPolicy s!, 5 namespaceSelector LabelSelector!, 11 objectSelector LabelSelector!, 6 sideEffects s!+, 7
  timeoutSeconds i!, 8 admissionReviewVersions s*+, 10 reinvocationPolicy s!, 12 matchConditions MatchCondition*
WebhookClientConfig: 3 url s!, 1 service ServiceReference!, 2 caBundle y
ServiceReference: 1 namespace s+, 2 name s+, 3 path s!, 4 port i!
RuleWithOperations: 1 operations s*, 2 ^ Rule
Rule: 1 apiGroups s*, 2 apiVersions s*, 3 resources s*, 4 scope s!
MatchCondition: 1 name s+, 2 expression s+
ValidatingWebhookConfiguration: 1 metadata ObjectMeta, 2 webhooks ValidatingWebhook*
ValidatingWebhook: 1 name s+, 2 clientConfig WebhookClientConfig+, 3 rules RuleWithOperations*, 4 failurePolicy s!, 9
  matchPolicy s!, 5 namespaceSelector LabelSelector!, 10 objectSelector LabelSelector!, 6 sideEffects s!+, 7
  timeoutSeconds i!, 8 admissionReviewVersions s*+, 11 matchConditions MatchCondition*
ValidatingAdmissionPolicy: 1 metadata ObjectMeta, 2 spec ValidatingAdmissionPolicySpec, 3 status
  ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicySpec: 1 paramKind ParamKind!, 2 matchConstraints MatchResources!, 3 validations Validation*,
  4 failurePolicy s!, 5 auditAnnotations AuditAnnotation*, 6 matchConditions MatchCondition*, 7 variables Variable*
ParamKind: 1 apiVersion s, 2 kind s
MatchResources: 1 namespaceSelector LabelSelector!, 2 objectSelector LabelSelector!, 3 resourceRules
  NamedRuleWithOperations*, 4 excludeResourceRules NamedRuleWithOperations*, 7 matchPolicy s!
NamedRuleWithOperations: 1 resourceNames s*, 2 ^ RuleWithOperations
Validation: 1 expression s+, 2 message s, 3 reason s!, 4 messageExpression s
AuditAnnotation: 1 key s+, 2 valueExpression s+
Variable: 1 name s+, 2 expression s+
ValidatingAdmissionPolicyStatus: 1 observedGeneration i, 2 typeChecking TypeChecking!, 3 conditions Condition*
TypeChecking: 1 expressionWarnings ExpressionWarning*
ExpressionWarning: 2 fieldRef s+, 3 warning s+
ValidatingAdmissionPolicyBinding: 1 metadata ObjectMeta, 2 spec ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec: 1 policyName s, 2 paramRef ParamRef!, 3 matchResources MatchResources!, 4
  validationActions s*
ParamRef: 1 name s, 2 namespace s, 3 selector LabelSelector!, 4 parameterNotFoundAction s!
RuntimeClass: 1 metadata ObjectMeta, 2 handler s+, 3 overhead Overhead!, 4 scheduling Scheduling!
Overhead: 1 podFixed {q}
Scheduling: 1 nodeSelector {s}, 2 tolerations Toleration*
EndpointSlice: 1 metadata ObjectMeta, 4 addressType s+, 2 endpoints Endpoint*+, 3 ports discovery.EndpointPort*+
Endpoint: 1 addresses s*+, 2 conditions EndpointConditions, 3 hostname s!, 4 targetRef ObjectReference!, 5
  deprecatedTopology {s}, 6 nodeName s!, 7 zone s!, 8 hints EndpointHints!
EndpointConditions: 1 ready b!, 2 serving b!, 3 terminating b!
EndpointHints: 1 forZones ForZone*, 2 forNodes ForNode*
ForZone: 1 name s+
ForNode: 1 name s+
discovery.EndpointPort: 1 name s!, 2 protocol s!, 3 port i!, 4 appProtocol s!
HorizontalPodAutoscaler: 1 metadata ObjectMeta, 2 spec HorizontalPodAutoscalerSpec, 3 status
  HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: 1 scaleTargetRef CrossVersionObjectReference+, 2 minReplicas i!, 3 maxReplicas i+, 4
  metrics MetricSpec*, 5 behavior HorizontalPodAutoscalerBehavior!
CrossVersionObjectReference: 1 kind s+, 2 name s+, 3 apiVersion s
MetricSpec: 1 type s+, 2 object ObjectMetricSource!, 3 pods PodsMetricSource!, 4 resource ResourceMetricSource!, 7
  containerResource ContainerResourceMetricSource!, 5 external ExternalMetricSource!
ObjectMetricSource: 1 describedObject CrossVersionObjectReference+, 2 target MetricTarget+, 3 metric MetricIdentifier+
MetricTarget: 1 type s+, 2 value q!, 3 averageValue q!, 4 averageUtilization i!
MetricIdentifier: 1 name s+, 2 selector LabelSelector!
PodsMetricSource: 1 metric MetricIdentifier+, 2 target MetricTarget+
ResourceMetricSource: 1 name s+, 2 target MetricTarget+
ContainerResourceMetricSource: 1 name s+, 2 target MetricTarget+, 3 container s+
ExternalMetricSource: 1 metric MetricIdentifier+, 2 target MetricTarget+
HorizontalPodAutoscalerBehavior: 1 scaleUp HPAScalingRules!, 2 scaleDown HPAScalingRules!
HPAScalingRules: 3 stabilizationWindowSeconds i!, 1 selectPolicy s!, 2 policies HPAScalingPolicy*, 4 tolerance q!
HPAScalingPolicy: 1 type s+, 2 value i+, 3 periodSeconds i+
HorizontalPodAutoscalerStatus: 1 observedGeneration i!, 2 lastScaleTime t, 3 currentReplicas i, 4 desiredReplicas i+,
  5 currentMetrics MetricStatus*+, 6 conditions HorizontalPodAutoscalerCondition*
MetricStatus: 1 type s+, 2 object ObjectMetricStatus!, 3 pods PodsMetricStatus!, 4 resource ResourceMetricStatus!, 7
  containerResource ContainerResourceMetricStatus!, 5 external ExternalMetricStatus!
ObjectMetricStatus: 1 metric MetricIdentifier+, 2 current MetricValueStatus+, 3 describedObject
  CrossVersionObjectReference+
MetricValueStatus: 1 value q!, 2 averageValue q!, 3 averageUtilization i!
PodsMetricStatus: 1 metric MetricIdentifier+, 2 current MetricValueStatus+
ResourceMetricStatus: 1 name s+, 2 current MetricValueStatus+
ContainerResourceMetricStatus: 1 name s+, 2 current MetricValueStatus+, 3 container s+
ExternalMetricStatus: 1 metric MetricIdentifier+, 2 current MetricValueStatus+
HorizontalPodAutoscalerCondition: 1 type s+, 2 status s+, 3 lastTransitionTime t, 4 reason s, 5 message s
"""
