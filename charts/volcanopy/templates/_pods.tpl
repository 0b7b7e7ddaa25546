{{- /*
What the Deployments have in common; takes a dict with
  root, part   the chart, and scheduler, controller, admission or ui
  args         the arguments of the program
  config       the name of the configuration file, if the part has one
  webhookPort  the port of the webhook (HTTPS), if the part has one; health is on port 8080, metrics are on port 8081
  unmeasured   whether the part has no metrics
  env          environment variables of the part, if it has some
*/ -}}
{{- define "volcanopy.deployment" -}}
{{- $values := index .root.Values .part -}}
{{- $metrics := list -}}
{{- if not .unmeasured -}}
{{- $metrics = include "volcanopy.metricsArgs" .root | fromJsonArray -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "volcanopy.metadata" . | nindent 2 }}
spec:
  replicas: {{ $values.replicas }}
  selector:
    matchLabels:
      {{- include "volcanopy.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "volcanopy.labels" . | nindent 8 }}
      annotations:
        kubectl.kubernetes.io/default-container: {{ .part }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ include "volcanopy.fullname" .root }}-{{ .part }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      priorityClassName: {{ .root.Values.priorityClassName | quote }}
      terminationGracePeriodSeconds: 30
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .part }}
          image: {{ include "volcanopy.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- range concat (list .part) .args $metrics $values.extraArgs }}
            - {{ . | quote }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  apiVersion: v1
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  apiVersion: v1
                  fieldPath: metadata.namespace
            {{- range $name, $value := .env }}
            - name: {{ $name }}
              value: {{ $value | quote }}
            {{- end }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: http
              containerPort: 8080
            {{- if not .unmeasured }}
            - name: metrics
              containerPort: 8081
            {{- end }}
            {{- with .webhookPort }}
            - name: https
              containerPort: {{ . }}
            {{- end }}
          startupProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet:
              path: /healthz
              port: http
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          readinessProbe:
            httpGet:
              path: /readyz
              port: http
            periodSeconds: 5
            timeoutSeconds: 5
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          volumeMounts:
            {{- if .config }}
            # A directory, not a single file: kubelets do not update single files.
            - name: config
              mountPath: /etc/volcanopy
              readOnly: true
            {{- end }}
            - name: tmp
              mountPath: /tmp
            {{- if and .root.Values.monitoring.tokenSecret (not .unmeasured) }}
            - name: metrics-token
              mountPath: /etc/volcanopy-metrics
              readOnly: true
            {{- end }}
            {{- with $values.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        {{- if .config }}
        - name: config
          configMap:
            name: {{ include "volcanopy.fullname" .root }}-{{ .part }}
        {{- end }}
        - name: tmp
          emptyDir:
            sizeLimit: 1Gi
        {{- if and .root.Values.monitoring.tokenSecret (not .unmeasured) }}
        - name: metrics-token
          secret:
            secretName: {{ .root.Values.monitoring.tokenSecret }}
            defaultMode: 0440
        {{- end }}
        {{- with $values.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $values.affinity }}
      affinity:
        {{- toYaml $values.affinity | nindent 8 }}
      {{- end }}
      {{- if $values.topologySpreadConstraints }}
      topologySpreadConstraints:
        {{- toYaml $values.topologySpreadConstraints | nindent 8 }}
      {{- else if not $values.affinity }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "volcanopy.selector" . | nindent 14 }}
      {{- end }}
{{- end -}}

{{- /* The service account of a part, and its PodDisruptionBudget. */ -}}
{{- define "volcanopy.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "volcanopy.metadata" . | nindent 2 }}
  {{- with (index .root.Values .part).serviceAccountAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- if gt (int (index .root.Values .part).replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  {{- include "volcanopy.metadata" . | nindent 2 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "volcanopy.selector" . | nindent 6 }}
{{- end }}
{{- end -}}

{{- /* The bindings of the ClusterRole of a part and (with namespaced) of its Role to its service account. */ -}}
{{- define "volcanopy.bindings" -}}
{{- range $kind := .namespaced | ternary (list "ClusterRole" "Role") (list "ClusterRole") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- include (eq $kind "Role" | ternary "volcanopy.metadata" "volcanopy.clusterMetadata") $ | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ include "volcanopy.fullname" $.root }}-{{ $.part }}
subjects:
  - kind: ServiceAccount
    name: {{ include "volcanopy.fullname" $.root }}-{{ $.part }}
    namespace: {{ $.root.Release.Namespace }}
{{- end }}
{{- end -}}

{{- /* The rules for leader election of a part. */ -}}
{{- define "volcanopy.election" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "volcanopy.fullname" .root }}-{{ .part }}]
  verbs: [get, list, watch, update]
# RBAC cannot restrict create by name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end -}}

{{- /* The arguments for metrics that need a token, as a JSON list. */ -}}
{{- define "volcanopy.metricsArgs" -}}
{{- $token := ternary (list "--metrics-token=/etc/volcanopy-metrics/token") list (ne .Values.monitoring.tokenSecret "") -}}
{{- $former := ternary (list "--former-metric-names") list .Values.monitoring.formerNames -}}
{{- concat $token $former | toJson -}}
{{- end -}}
