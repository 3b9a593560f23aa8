#!/bin/bash
# A cluster of one node from what build.sh made: API server, controllers, scheduler, kubelet. Needs root and a Docker daemon for images.
# up.sh FOLDER KUBECTL; prints how to reach it. down.sh ends it.
set -euo pipefail
folder=$(cd "${1:?folder}" && pwd)
kubectl=${2:?kubectl}
here=$(cd "$(dirname "$0")" && pwd)
run="$folder/run"
mkdir -p "$run" && cd "$run"
export PATH="$folder/bin:$folder/system/usr/bin:$PATH"
# The kubelet changes these; down.sh puts them back.
[ -f sysctl ] || sysctl vm.overcommit_memory kernel.panic kernel.panic_on_oops > sysctl

start() {
    local name=$1
    shift
    setsid "$@" > "$name.log" 2>&1 &
    echo $! > "$name.pid"
}

openssl genrsa -out sa.key 2048 2> /dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2> /dev/null
token=$(openssl rand -hex 16)
echo "$token,admin,1,\"system:masters\"" > tokens.csv
cat > kubeconfig <<K
{apiVersion: v1, kind: Config, current-context: local,
 clusters: [{name: local, cluster: {server: "https://127.0.0.1:16443", insecure-skip-tls-verify: true}}],
 users: [{name: admin, user: {token: "$token"}}], contexts: [{name: local, context: {cluster: local, user: admin}}]}
K
chmod 600 kubeconfig tokens.csv

mkdir -p cni
cat > cni/10-bridge.conflist <<'K'
{"cniVersion": "1.0.0", "name": "limpet", "plugins": [
  {"type": "bridge", "bridge": "limpet0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
K
cat > containerd.toml <<K
version = 2
root = "$run/containerd.root"
state = "$run/containerd.state"
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$folder/system/usr/lib/cni"
    conf_dir = "$run/cni"
K
start containerd containerd --config containerd.toml
start etcd etcd --data-dir etcd --listen-client-urls http://127.0.0.1:12379 --advertise-client-urls http://127.0.0.1:12379 \
    --listen-peer-urls http://127.0.0.1:12380 --initial-advertise-peer-urls http://127.0.0.1:12380 --initial-cluster default=http://127.0.0.1:12380
start apiserver kube-apiserver --etcd-servers=http://127.0.0.1:12379 --bind-address=127.0.0.1 --advertise-address=10.88.0.1 --secure-port=16443 \
    --cert-dir=certs --token-auth-file=tokens.csv --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file=sa.pub --service-account-signing-key-file=sa.key \
    --api-audiences=https://kubernetes.default.svc --kubelet-preferred-address-types=InternalIP
for _ in $(seq 120); do
    "$kubectl" --kubeconfig kubeconfig get --raw /readyz > /dev/null 2>&1 && break
    sleep 1
done
start controllers kube-controller-manager --kubeconfig=kubeconfig --service-account-private-key-file=sa.key --leader-elect=false --bind-address=127.0.0.1
start scheduler kube-scheduler --kubeconfig=kubeconfig --leader-elect=false --bind-address=127.0.0.1

printf 'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n' > "$folder/pause.Dockerfile"
mkdir -p "$folder/pause.context" && cp "$folder/pause" "$folder/pause.context/"
DOCKER_BUILDKIT=0 docker build -q -t localhost/pause:1 -f "$folder/pause.Dockerfile" "$folder/pause.context" > /dev/null
tag=${TAG:-dev}
docker save localhost/pause:1 localhost/limpet-nats:$tag localhost/limpet-postgresql:$tag limpet-scheduler:$tag limpet-fetcher:$tag limpet-parser:$tag \
    limpet-proxy-broker:$tag limpet-health:$tag | ctr --address "$run/containerd.sock" --namespace k8s.io images import - > images.log

cat > kubelet.yaml <<K
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 172.17.0.1
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
readOnlyPort: 0
clusterDNS: [10.88.0.1]
clusterDomain: cluster.local
containerRuntimeEndpoint: "unix://$run/containerd.sock"
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
K
# Docker drops what is forwarded and not its own.
iptables -C FORWARD -i limpet0 -o limpet0 -j ACCEPT 2> /dev/null || iptables -I FORWARD -i limpet0 -o limpet0 -j ACCEPT
start kubelet kubelet --kubeconfig=kubeconfig --config=kubelet.yaml --hostname-override=node1 --node-ip=172.17.0.1 --root-dir="$run/kubelet" --cert-dir="$run/kubelet.certs"
start dns python3 "$here/dns.py" "$kubectl" "$run/kubeconfig"
for _ in $(seq 60); do
    "$kubectl" --kubeconfig kubeconfig get nodes 2> /dev/null | grep -q ' Ready' && break
    sleep 1
done
"$kubectl" --kubeconfig kubeconfig get nodes
echo "export KUBECONFIG=$run/kubeconfig"
