{{/* The controller's environment. Every chart value that docs/options.md names stands here. */}}
{{- define "karpenter.env" -}}
- name: KUBERNETES_MIN_VERSION
  value: "1.19.0-0"
- name: KARPENTER_SERVICE
  value: {{ include "karpenter.fullname" . }}
- name: SYSTEM_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: MEMORY_LIMIT
  valueFrom:
    resourceFieldRef:
      containerName: {{ .Values.controller.containerName }}
      resource: limits.memory
      divisor: "0"
- name: CPU_REQUESTS
  valueFrom:
    resourceFieldRef:
      containerName: {{ .Values.controller.containerName }}
      resource: requests.cpu
      divisor: 1m
- name: METRICS_PORT
  value: {{ .Values.controller.metrics.port | quote }}
{{- if .Values.controller.metrics.tokenSecret.name }}
- name: METRICS_TOKEN_FILE
  value: /var/run/secrets/karpenter/metrics/token
{{- end }}
- name: METRICS_MAX_SERIES
  value: {{ .Values.controller.metrics.maxSeries | quote }}
- name: DISABLE_POD_METRICS
  value: {{ .Values.controller.metrics.disablePodMetrics | quote }}
- name: HEALTH_PROBE_PORT
  value: {{ .Values.controller.healthProbe.port | quote }}
{{- with .Values.logLevel }}
- name: LOG_LEVEL
  value: {{ . | quote }}
{{- end }}
{{- with .Values.logOutputPaths }}
- name: LOG_OUTPUT_PATHS
  value: {{ join "," . | quote }}
{{- end }}
{{- with .Values.logErrorOutputPaths }}
- name: LOG_ERROR_OUTPUT_PATHS
  value: {{ join "," . | quote }}
{{- end }}
- name: FEATURE_GATES
  value: {{ include "karpenter.featureGates" . | quote }}
{{- $settings := dict
  "batchMaxDuration" "BATCH_MAX_DURATION"
  "batchIdleDuration" "BATCH_IDLE_DURATION"
  "preferencePolicy" "PREFERENCE_POLICY"
  "minValuesPolicy" "MIN_VALUES_POLICY"
  "packingPolicy" "PACKING_POLICY"
  "ignoreDRARequests" "IGNORE_DRA_REQUESTS"
  "disableClusterStateObservability" "DISABLE_CLUSTER_STATE_OBSERVABILITY"
  "schedulerConfig" "SCHEDULER_CONFIG"
  "disableVoluntaryDisruption" "DISABLE_VOLUNTARY_DISRUPTION"
  "clusterCABundle" "CLUSTER_CA_BUNDLE"
  "clusterName" "CLUSTER_NAME"
  "clusterEndpoint" "CLUSTER_ENDPOINT"
  "isolatedVPC" "ISOLATED_VPC"
  "eksControlPlane" "EKS_CONTROL_PLANE"
  "vmMemoryOverheadPercent" "VM_MEMORY_OVERHEAD_PERCENT"
  "interruptionQueue" "INTERRUPTION_QUEUE"
  "enableZonalShift" "ENABLE_ZONAL_SHIFT"
  "reservedENIs" "RESERVED_ENIS"
  "disableDryRun" "DISABLE_DRY_RUN"
  "amiRefreshInterval" "AMI_REFRESH_INTERVAL"
  "subnetRefreshInterval" "SUBNET_REFRESH_INTERVAL"
  "replaceOnRebalance" "REPLACE_ON_REBALANCE"
  "clusterID" "CLUSTER_ID"
  "interruption" "INTERRUPTION" }}
{{- range $value, $variable := $settings }}
{{- $set := index $.Values.settings $value }}
{{- if and (not (kindIs "invalid" $set)) (ne (toString $set) "") }}
- name: {{ $variable }}
  value: {{ toString $set | quote }}
{{- end }}
{{- end }}
{{- with .Values.settings.awsFeatureGates }}
- name: AWS_FEATURE_GATES
  value: {{ printf "NodeClassCEL=%t" (default false .nodeClassCEL) | quote }}
{{- end }}
{{- if eq .Values.provider "alibabacloud" }}
{{- with .Values.alibabacloud.regionID }}
- name: ALIBABA_CLOUD_REGION_ID
  value: {{ . | quote }}
{{- end }}
{{- if .Values.alibabacloud.rrsa.roleARN }}
- name: ALIBABA_CLOUD_ROLE_ARN
  value: {{ .Values.alibabacloud.rrsa.roleARN | quote }}
- name: ALIBABA_CLOUD_OIDC_PROVIDER_ARN
  value: {{ required "alibabacloud.rrsa.oidcProviderARN is missing: the OIDC provider that ACK made when RRSA was enabled" .Values.alibabacloud.rrsa.oidcProviderARN | quote }}
- name: ALIBABA_CLOUD_OIDC_TOKEN_FILE
  value: /var/run/secrets/ack.alibabacloud.com/rrsa-tokens/token
{{- end }}
{{- end }}
{{- end -}}
