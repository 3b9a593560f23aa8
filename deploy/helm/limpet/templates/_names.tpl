{{- define "limpet.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "limpet.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "limpet.labels" -}}
{{ include "limpet.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: limpet
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "limpet.image" -}}
{{- $own := .values.image -}}
{{- $name := $own.repository -}}
{{- with .root.Values.image.registry -}}{{- $name = printf "%s/%s" (trimSuffix "/" .) $name -}}{{- end -}}
{{- if $own.digest -}}
{{ $name }}@{{ $own.digest }}
{{- else -}}
{{ $name }}:{{ $own.tag | default .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "limpet.secret" -}}
{{ .Values.secrets.existingSecret | default (printf "%s-keys" (include "limpet.fullname" .)) }}
{{- end -}}

{{/* Pod and container settings that Pod Security `restricted` asks for. */}}
{{- define "limpet.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "limpet.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "limpet.testHost" -}}
{{ include "limpet.fullname" . }}-crawl-test.{{ .Release.Namespace }}.svc
{{- end -}}
