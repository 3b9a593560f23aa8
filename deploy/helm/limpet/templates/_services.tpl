{{/* What tells the five services apart. Keys are those of values.yaml; `name` is the word in names and users. */}}
{{- define "limpet.services" -}}
scheduler: {name: scheduler, package: limpet.scheduler, ops: 9101, http: 8081, grpc: 0, keys: true, pages: true, crawls: true}
fetcher: {name: fetcher, package: limpet.fetcher, ops: 9102, http: 0, grpc: 0, keys: false, pages: true, crawls: true}
parser: {name: parser, package: limpet.parser, ops: 9103, http: 8082, grpc: 0, keys: true, pages: true, crawls: false}
proxyBroker: {name: proxy-broker, package: limpet.proxy_broker, ops: 9104, http: 8084, grpc: 9204, keys: true, pages: false, crawls: false}
health: {name: health, package: limpet.health, ops: 9105, http: 8080, grpc: 0, keys: true, pages: false, crawls: false}
{{- end -}}

{{/* Where its database and its NATS are. Passwords of the builtin servers come from the generated secret. */}}
{{- define "limpet.env.servers" -}}
{{- $full := include "limpet.fullname" .root -}}
{{- $pg := .root.Values.postgresql -}}
{{- $nats := .root.Values.nats -}}
{{- $database := printf "limpet_%s" (replace "-" "_" .fact.name) -}}
{{- if eq $pg.mode "builtin" }}
- name: PG_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $full }}-servers, key: postgresql-{{ .fact.name }}}}
- {name: LIMPET_PG_DSN, value: "postgresql://{{ $database }}:$(PG_PASSWORD)@{{ $full }}-postgresql:5432/{{ $database }}"}
{{- else }}
- name: LIMPET_PG_DSN
  valueFrom: {secretKeyRef: {name: {{ $pg.external.existingSecret }}, key: {{ .fact.name }}}}
{{- end }}
{{- if eq $nats.mode "builtin" }}
- name: NATS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $full }}-servers, key: nats-{{ .fact.name }}}}
- {name: LIMPET_NATS_URL, value: "nats://limpet-{{ .fact.name }}:$(NATS_PASSWORD)@{{ $full }}-nats:4222"}
{{- else if $nats.external.existingSecret }}
- name: LIMPET_NATS_URL
  valueFrom: {secretKeyRef: {name: {{ $nats.external.existingSecret }}, key: {{ .fact.name }}}}
{{- else }}
- {name: LIMPET_NATS_URL, value: {{ $nats.external.url | quote }}}
{{- end }}
{{- if and (eq $nats.mode "external") $nats.external.caSecret }}
- {name: LIMPET_NATS_CA_FILE, value: /etc/limpet/nats-ca/ca.crt}
{{- end }}
- {name: LIMPET_STREAM_REPLICAS, value: {{ $nats.streamReplicas | quote }}}
- {name: LIMPET_LOG_LEVEL, value: {{ .root.Values.logLevel }}}
{{- end -}}

{{- define "limpet.env.secret" -}}
- name: {{ .variable }}
  valueFrom: {secretKeyRef: {name: {{ include "limpet.secret" .root }}, key: {{ .key }}}}
{{- end -}}

{{- define "limpet.env" -}}
{{- $full := include "limpet.fullname" .root -}}
{{- $keys := .root.Values.secrets.keys -}}
{{- include "limpet.env.servers" . }}
- {name: LIMPET_OPS_HOST, value: {{ .root.Values.bindAddress | quote }}}
- {name: LIMPET_OPS_PORT, value: {{ .fact.ops | quote }}}
- {name: LIMPET_DRAIN_SECONDS, value: {{ .values.drainSeconds | quote }}}
{{- if .fact.http }}
- {name: LIMPET_HTTP_HOST, value: {{ .root.Values.bindAddress | quote }}}
- {name: LIMPET_HTTP_PORT, value: {{ .fact.http | quote }}}
{{- end }}
{{- if .fact.keys }}
{{ include "limpet.env.secret" (dict "root" .root "variable" "LIMPET_API_KEYS" "key" $keys.apiKeys) }}
{{- end }}
{{- if .fact.pages }}
- {name: LIMPET_PAGE_STORE, value: {{ ternary "file:///var/lib/limpet/pages" .root.Values.pageStore.url (eq .root.Values.pageStore.mode "volume") | quote }}}
{{- end }}
{{- if .fact.crawls }}
- {name: LIMPET_ALLOWED_NETWORKS, value: {{ join "," .root.Values.allowedNetworks | quote }}}
{{- if .root.Values.crawlTest.enabled }}
- {name: LIMPET_ALLOWED_HOSTS_FILE, value: /etc/limpet/hosts/allowed}
{{- end }}
{{- end }}
{{- if eq .fact.name "scheduler" }}
{{ include "limpet.env.secret" (dict "root" .root "variable" "LIMPET_WEBHOOK_SECRET" "key" $keys.webhookSecret) }}
{{- end }}
{{- if eq .fact.name "fetcher" }}
- {name: LIMPET_BROKER_ADDRESS, value: "dns:///{{ $full }}-proxy-broker-rpc:9204"}
{{- end }}
{{- if eq .fact.name "proxy-broker" }}
- {name: LIMPET_GRPC_HOST, value: {{ .root.Values.bindAddress | quote }}}
- {name: LIMPET_GRPC_PORT, value: {{ .fact.grpc | quote }}}
{{ include "limpet.env.secret" (dict "root" .root "variable" "LIMPET_SECRET_KEYS" "key" $keys.secretKeys) }}
{{- end }}
{{- if eq .fact.name "health" }}
- {name: LIMPET_SCHEDULER_URL, value: "http://{{ $full }}-scheduler:8081"}
- {name: LIMPET_PARSER_URL, value: "http://{{ $full }}-parser:8082"}
- {name: LIMPET_PROXY_BROKER_URL, value: "http://{{ $full }}-proxy-broker:8084"}
{{- end }}
{{- range $name, $value := .values.settings }}
- {name: LIMPET_{{ $name }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* CAs of external servers, for services and for what prepares or waits. */}}
{{- define "limpet.ca.mounts" -}}
{{- if and (eq .Values.nats.mode "external") .Values.nats.external.caSecret }}
- {name: nats-ca, mountPath: /etc/limpet/nats-ca, readOnly: true}
{{- end }}
{{- if and (eq .Values.postgresql.mode "external") .Values.postgresql.external.caSecret }}
- {name: postgresql-ca, mountPath: /etc/limpet/postgresql-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "limpet.ca.volumes" -}}
{{- if and (eq .Values.nats.mode "external") .Values.nats.external.caSecret }}
- {name: nats-ca, secret: {secretName: {{ .Values.nats.external.caSecret }}}}
{{- end }}
{{- if and (eq .Values.postgresql.mode "external") .Values.postgresql.external.caSecret }}
- {name: postgresql-ca, secret: {secretName: {{ .Values.postgresql.external.caSecret }}}}
{{- end }}
{{- end -}}

{{/*
How many pods. What runs is kept until the number in the values changes: so `kubectl scale` and autoscalers survive an
upgrade, with Helm 3 (which would set the old number) and with Helm 4 (which would refuse the conflict).
*/}}
{{- define "limpet.replicas" -}}
{{- $live := lookup "apps/v1" "Deployment" .root.Release.Namespace .deployment -}}
{{- $running := dig "spec" "replicas" "" (default dict $live) -}}
{{- $marked := dig "metadata" "annotations" "limpet/replicas" "" (default dict $live) -}}
{{- $unchanged := or .autoscaled (eq (toString $marked) (include "limpet.wanted" .)) -}}
{{- if and (ne (toString $running) "") $unchanged -}}
replicas: {{ $running | int }}
{{- else if .autoscaled -}}
replicas: {{ .values.autoscaling.min }}
{{- else if not (kindIs "invalid" .values.replicas) -}}
replicas: {{ .values.replicas | int }}
{{- end -}}
{{- end -}}

{{- define "limpet.wanted" -}}
{{- if .autoscaled -}}autoscaled{{- else if kindIs "invalid" .values.replicas -}}null{{- else -}}{{ .values.replicas | int }}{{- end -}}
{{- end -}}
