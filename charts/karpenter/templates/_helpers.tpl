{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "karpenter.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "karpenter.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects the controller's pods: as in upstream's chart, since it cannot be changed in an upgrade. */}}
{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "karpenter.webhook.fullname" -}}
{{- printf "%s-webhook" (include "karpenter.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{- define "karpenter.webhook.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}-webhook
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "karpenter.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "karpenter.labels" -}}
{{ include "karpenter.commonLabels" . }}
{{ include "karpenter.selectorLabels" . }}
{{- end -}}

{{- define "karpenter.webhook.labels" -}}
{{ include "karpenter.commonLabels" . }}
{{ include "karpenter.webhook.selectorLabels" . }}
{{- end -}}

{{- define "karpenter.annotations" -}}
{{- with .Values.additionalAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end -}}

{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image -}}
{{- $image.repository -}}
{{- with default .Chart.AppVersion $image.tag }}:{{ . }}{{ end -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* Gates by the names that the program knows: the chart writes them with a small first letter. */}}
{{- define "karpenter.featureGates" -}}
{{- $gates := list -}}
{{- range $name, $on := .Values.settings.featureGates -}}
{{- $gates = append $gates (printf "%s%s=%t" (substr 0 1 $name | upper) (substr 1 -1 $name) $on) -}}
{{- end -}}
{{- join "," $gates -}}
{{- end -}}

{{/* What the container may do, whatever the values add to it: nothing that needs a right. */}}
{{- define "karpenter.securityContext" -}}
privileged: false
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities:
  drop: [ALL]
{{- with .Values.controller.securityContext.appArmorProfile }}
appArmorProfile:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.controller.securityContext.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
seccompProfile:
  {{- toYaml (default (dict "type" "RuntimeDefault") .Values.controller.securityContext.seccompProfile) | nindent 2 }}
{{- end -}}

{{/* Spread and affinity without a selector of their own are about the pods they are for. */}}
{{- define "karpenter.placement" -}}
{{- $labels := .labels -}}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- range $kind, $terms := . }}
  {{ $kind }}:
    {{- if and (eq $kind "podAntiAffinity") (hasKey $terms "requiredDuringSchedulingIgnoredDuringExecution") }}
    requiredDuringSchedulingIgnoredDuringExecution:
      {{- range $terms.requiredDuringSchedulingIgnoredDuringExecution }}
      {{- $term := deepCopy . }}
      {{- if not (hasKey $term "labelSelector") }}
      {{- $_ := set $term "labelSelector" (dict "matchLabels" $labels) }}
      {{- end }}
      - {{- toYaml $term | nindent 8 }}
      {{- end }}
    {{- with omit $terms "requiredDuringSchedulingIgnoredDuringExecution" }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- else }}
    {{- toYaml $terms | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $constraint := deepCopy . }}
  {{- if not (hasKey $constraint "labelSelector") }}
  {{- $_ := set $constraint "labelSelector" (dict "matchLabels" $labels) }}
  {{- end }}
  - {{- toYaml $constraint | nindent 4 }}
  {{- end }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* API groups and resources of the provider's NodeClasses. */}}
{{- define "karpenter.nodeClassGroups" -}}
{{- $groups := dict
  "kwok" (list "karpenter.kwok.sh")
  "aws" (list "karpenter.k8s.aws")
  "alibabacloud" (list "karpenter.alibabacloud.com" "karpenter.k8s.alibabacloud.com" "karpenter.k8s.alibabacloud") -}}
{{- join ", " (required (printf "there is no provider %s: it is one of kwok, aws, alibabacloud" .Values.provider) (index $groups .Values.provider)) -}}
{{- end -}}

{{- define "karpenter.nodeClasses" -}}
{{- index (dict "kwok" "kwoknodeclasses" "aws" "ec2nodeclasses" "alibabacloud" "ecsnodeclasses") .Values.provider -}}
{{- end -}}

{{/* Whether the token of a service account is mounted for RRSA. */}}
{{- define "karpenter.rrsa" -}}
{{- if and (eq .Values.provider "alibabacloud") .Values.alibabacloud.rrsa.roleARN }}true{{ end -}}
{{- end -}}
