#!/bin/sh
# A node, from its start to its end: the first process of a pid namespace, with mounts of its own.
# Who kills it takes containers and mounts with it, as a node that loses its power.
#
# $1: its folder, with what containerd, CNI and kubelet are told. $2: the folder that image.sh
# made. $3: the kubelet. $4: the device plugin, and $5 how many GPUs. The rest: flags of the
# kubelet.
set -eu
node=$1 image=$2 kubelet=$3 plugin=$4 gpus=$5
shift 5
root=$image/rootfs

# Where kubelet and containerd keep things is fixed for some of them, the device plugin's socket
# among them.
mkdir -p "$node/lib" "$node/log"
mount -t tmpfs run /run
mount --bind "$node/lib" /var/lib
mount --bind "$node/log" /var/log

PATH=$root/usr/bin:$root/usr/sbin:$PATH "$root/usr/bin/containerd" \
    --config "$node/containerd.toml" >"$node/containerd.log" 2>&1 &
until "$root/usr/bin/ctr" version >/dev/null 2>&1; do sleep 0.05; done
"$root/usr/bin/ctr" --namespace k8s.io images import "$image/image.tar"
# Nobody has to unpack gigabytes for each node: what the image holds is laid where it would be.
for marker in /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/*/fs/.trellis-rootfs; do
    mount --bind "$root" "${marker%/*}"
    mount -o remount,bind,ro "${marker%/*}"
done

"$plugin" "$gpus" "$node/unhealthy-gpus" >"$node/plugin.log" 2>&1 &
# A kubelet that is killed comes again, once nothing keeps it away. With one that ends by itself
# the node ends too.
while :; do
    "$kubelet" --config="$node/kubelet.json" "$@" >>"$node/kubelet.log" 2>&1 &
    code=0
    wait $! || code=$?
    [ "$code" -eq 137 ] || exit "$code"
    while [ -e "$node/no-kubelet" ]; do sleep 0.05; done
done
