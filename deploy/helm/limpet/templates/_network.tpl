{{- define "limpet.policy" -}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "limpet.fullname" .root }}-{{ .component | default "deny" }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "limpet.labels" (dict "root" .root "component" (.component | default "network")) | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "limpet.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end }}
{{- define "limpet.peer" -}}
podSelector:
  matchLabels: {{- include "limpet.selector" . | nindent 4 }}
{{- end }}
{{- define "limpet.peers" -}}
{{- $root := .root -}}
{{- range .components }}
- {{ include "limpet.peer" (dict "root" $root "component" .) | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- define "limpet.networks" -}}
{{- range . }}
- ipBlock: {cidr: {{ . | quote }}}
{{- end }}
{{- end }}
{{- define "limpet.public" -}}
- to:
    - ipBlock: {cidr: 0.0.0.0/0, except: {{ .privateRanges | toJson }}}
    - ipBlock: {cidr: "::/0", except: {{ .privateRanges6 | toJson }}}
{{- end }}
{{- define "limpet.egress.servers" -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- range $server, $port := dict "nats" 4222 "postgresql" 5432 }}
{{- $values := index $.Values $server }}
{{- if eq $values.mode "builtin" }}
- to: [{podSelector: {matchLabels: {{ include "limpet.selector" (dict "root" $ "component" $server) | fromYaml | toJson }}}}]
  ports: [{port: {{ $port }}}]
{{- else }}
- ports: [{port: {{ $values.external.port }}}]
  {{- with include "limpet.networks" $values.external.networks }}
  to: {{- . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- define "limpet.egress.pages" -}}
{{- if eq .Values.pageStore.mode "url" }}
- ports: [{port: {{ .Values.pageStore.port }}}]
  {{- with include "limpet.networks" .Values.pageStore.networks }}
  to: {{- . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end }}
{{- define "limpet.ingress.ops" -}}
- ports: [{port: ops}]
  from: {{- .Values.networkPolicy.monitoringFrom | default (list (dict "namespaceSelector" dict)) | toYaml | nindent 4 }}
{{- end }}
