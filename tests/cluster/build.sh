#!/bin/bash
# Kubernetes from its Go modules, containerd, etcd and network plugins from Debian's packages: no registry, no cluster, no root.
# build.sh FOLDER; 500 CPU seconds the first time.
set -euo pipefail
folder=$(mkdir -p "${1:?folder}" && cd "$1" && pwd)
version=1.36.4
mkdir -p "$folder/modules" "$folder/bin" "$folder/debs" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"

if [ ! -x "$folder/bin/kubelet" ]; then
    cd "$folder/modules"
    [ -f go.mod ] || go mod init limpet/kubernetes
    go mod edit -go=1.26.0 "-require=k8s.io/kubernetes@v$version"
    for module in api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider cluster-bootstrap code-generator \
        component-base component-helpers controller-manager cri-api cri-client cri-streaming csi-translation-lib dynamic-resource-allocation \
        endpointslice externaljwt kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils \
        pod-security-admission sample-apiserver sample-cli-plugin sample-controller streaming; do
        go mod edit "-replace=k8s.io/$module=k8s.io/$module@v0.${version#*.}"
    done
    for command in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
        go mod edit "-tool=k8s.io/kubernetes/cmd/$command"
    done
    go mod tidy
    name=k8s.io/component-base/version
    CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X $name.gitVersion=v$version -X $name.gitMajor=1 -X $name.gitMinor=36" -o "$folder/bin/" tool
fi

if [ ! -x "$folder/system/usr/bin/containerd" ]; then
    # The lists of another suite, apart from the machine's own, from where the machine has its packages.
    mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' | grep -v security | head -n 1)
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" > "$folder/apt/sources.list"
    options=(-o "Dir::Etc::sourcelist=$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o "Dir::State::lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache")
    apt-get "${options[@]}" update -qq
    cd "$folder/debs"
    apt-get "${options[@]}" download -qq containerd etcd-server containernetworking-plugins
    for package in *.deb; do dpkg -x "$package" "$folder/system"; done
fi

cat > "$folder/pause.c" <<'C'
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { _exit(0); }
static void reap(int number) { while (waitpid(-1, 0, WNOHANG) > 0) {} }
int main(void) { signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap); for (;;) pause(); }
C
gcc -Os -static -o "$folder/pause" "$folder/pause.c"
