#!/bin/bash
# End the cluster that up.sh started: down.sh FOLDER
set -u
run=$(cd "${1:?folder}/run" && pwd)
cd "$run"
for name in dns kubelet scheduler controllers apiserver etcd; do
    [ -f $name.pid ] && kill "$(cat $name.pid)" 2> /dev/null
done
# An API server without its store would wait for it for ever.
sleep 3
for name in kubelet apiserver; do
    [ -f $name.pid ] && kill -9 "$(cat $name.pid)" 2> /dev/null
done
ctr="$run/../system/usr/bin/ctr --address $run/containerd.sock --namespace k8s.io"
for container in $($ctr tasks ls -q 2> /dev/null); do $ctr tasks kill -s KILL "$container"; done > /dev/null 2>&1
sleep 2
for container in $($ctr containers ls -q 2> /dev/null); do $ctr tasks rm -f "$container"; $ctr containers rm "$container"; done > /dev/null 2>&1
[ -f containerd.pid ] && kill "$(cat containerd.pid)" 2> /dev/null
sleep 1
grep " $run/" /proc/mounts | cut -d' ' -f2 | sort -r | while read -r place; do umount "$place"; done
for file in /var/run/netns/cni-*; do [ -e "$file" ] && umount "$file" 2> /dev/null; rm -f "$file"; done
iptables -D FORWARD -i limpet0 -o limpet0 -j ACCEPT 2> /dev/null
ip link del limpet0 2> /dev/null
[ -f sysctl ] && sed 's/ = /=/' sysctl | xargs sysctl -q -w
find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2> /dev/null
rm -rf "$run"
