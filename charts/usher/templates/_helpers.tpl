{{- define "usher.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "usher.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "usher.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "usher.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "usher.selector" -}}
app.kubernetes.io/name: {{ include "usher.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "usher.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "usher.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "usher.labels" -}}
{{- include "usher.over" (list (include "usher.ownLabels" . | fromYaml) .Values.commonLabels) -}}
{{- end -}}

{{- /* A map, and over it another one, whose keys win. (mergeOverwrite passes over what is false.) */ -}}
{{- define "usher.over" -}}
{{- $all := deepCopy (first .) -}}
{{- range $key, $value := last . -}}
{{- $_ := set $all $key $value -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{- define "usher.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "usher.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "usher.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* The enabled sources, in order, as a JSON list of {name, plugin, options, namespaces}. */ -}}
{{- define "usher.sources" -}}
{{- $ranked := dict -}}
{{- range $name, $source := .Values.sources -}}
{{- if and $source (ne $source.enabled false) -}}
{{- $rank := printf "%020d %s" (add 1000000 (default 0 $source.order)) $name -}}
{{- $_ := set $ranked $rank (dict "name" $name "plugin" $source.plugin "options" (default dict $source.options) "namespaces" (default list $source.namespaces)) -}}
{{- end -}}
{{- end -}}
{{- $sources := list -}}
{{- range $rank := keys $ranked | sortAlpha -}}
{{- $sources = append $sources (get $ranked $rank) -}}
{{- end -}}
{{- toJson $sources -}}
{{- end -}}

{{- /* Those that use the API server of this cluster, with the pod's own token. */ -}}
{{- define "usher.sourcesOfCluster" -}}
{{- $mine := list -}}
{{- range $source := include "usher.sources" . | fromJsonArray -}}
{{- if and (eq $source.plugin "kubernetes") (not $source.options.kubeconfig) (not $source.options.servers) -}}
{{- $mine = append $mine $source -}}
{{- end -}}
{{- end -}}
{{- toJson $mine -}}
{{- end -}}

{{- /* To follow endpoints. */ -}}
{{- define "usher.rulesOfSlices" -}}
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- end -}}

{{- /* To follow the node's pods, set their readiness gate, and tell how their drains go. */ -}}
{{- define "usher.rulesOfPods" -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [pods/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end -}}

{{- define "usher.config" -}}
{{- $sources := list -}}
{{- range $source := include "usher.sources" . | fromJsonArray -}}
{{- $entry := dict "name" $source.name "plugin" $source.plugin -}}
{{- if $source.options -}}
{{- $_ := set $entry "options" $source.options -}}
{{- end -}}
{{- $sources = append $sources $entry -}}
{{- end -}}
{{- $config := deepCopy .Values.extraConfig -}}
{{- range $key := list "api" "state_dir" "plugin_dirs" "sources" "services" "defaults" -}}
{{- if hasKey $config $key -}}
{{- fail (printf "extraConfig.%s is set by the chart; use the value for it" $key) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "api" (dict
	"consumer" (dict "socket" "/run/usher/usher.sock" "mode" .Values.socket.mode)
	"admin" (dict "socket" "/run/usher/admin.sock" "mode" .Values.socket.adminMode)
	"http" (dict "listen" (printf "%s:%d" .Values.http.address (int .Values.http.port)))) -}}
{{- $_ := set $config "state_dir" "/var/lib/usher" -}}
{{- $_ := set $config "sources" $sources -}}
{{- with .Values.defaults }}{{ $_ := set $config "defaults" . }}{{ end -}}
{{- with .Values.services }}{{ $_ := set $config "services" . }}{{ end -}}
{{- toYaml $config -}}
{{- end -}}
